"""What is asked about identities and rights: answers that grant all, unless the owner of the world says otherwise."""

from collections.abc import Callable, Mapping
from typing import Any

Object = dict[str, Any]
Attributes = Mapping[str, Any]
Allows = Callable[[Attributes], bool]
"""Whether a request is allowed, by the attributes of a SubjectAccessReview: resourceAttributes or
nonResourceAttributes."""

GROUPS = {
    ("authorization.k8s.io", "selfsubjectaccessreviews"): "SelfSubjectAccessReview",
    ("authorization.k8s.io", "subjectaccessreviews"): "SubjectAccessReview",
    ("authentication.k8s.io", "tokenreviews"): "TokenReview",
}


def review(kind: str, group: str, value: Object, allows: Allows, users: Mapping[str, Object]) -> Object:
    """Return a review with its status. `users` are authentication.k8s.io/v1 UserInfos by token."""
    spec = value.get("spec") or {}
    status: Object
    if kind == "TokenReview":
        user = users.get(spec.get("token", ""))
        status = {"authenticated": True, "user": user} if user else {"user": {}}
    else:
        status = {"allowed": allows(spec.get("resourceAttributes") or spec.get("nonResourceAttributes") or {})}
    metadata = value.get("metadata") or {}
    return {"kind": kind, "apiVersion": f"{group}/v1", "metadata": metadata, "spec": spec, "status": status}

"""Asks the API server who a caller is and what it may do (TokenReview, SubjectAccessReview), and reads which
authorities vouch for callers (the ConfigMap kube-system/extension-apiserver-authentication)."""

from collections.abc import Mapping
from typing import Any

from extender_service.kube.api_errors import ApiError
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.resources.api_resources import Resource
from extender_service.kube.types.core import Object, ObjectMeta


class ReviewedUser(Object):
    """authentication.k8s.io/v1 UserInfo."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class TokenReviewStatus(Object):
    """authentication.k8s.io/v1 TokenReviewStatus."""

    authenticated: bool = False
    user: ReviewedUser = ReviewedUser()
    error: str = ""


class TokenReview(Object):
    """authentication.k8s.io/v1 TokenReview; we read only the answer."""

    metadata: ObjectMeta = ObjectMeta()
    status: TokenReviewStatus = TokenReviewStatus()


class SubjectAccessReviewStatus(Object):
    """authorization.k8s.io/v1 SubjectAccessReviewStatus."""

    allowed: bool = False
    denied: bool = False
    reason: str = ""
    evaluation_error: str = ""


class SubjectAccessReview(Object):
    """authorization.k8s.io/v1 SubjectAccessReview; we read only the answer."""

    metadata: ObjectMeta = ObjectMeta()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class ConfigMap(Object):
    """v1.ConfigMap."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}


TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", TokenReview)
SUBJECT_ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", SubjectAccessReview)
CONFIG_MAPS = Resource("", "v1", "configmaps", ConfigMap)


async def review_token(client: KubeClient, token: str) -> TokenReviewStatus:
    """Return whose token it is. Raises KubeError and CredentialsError."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    return (await client.create(TOKEN_REVIEWS, "", review)).status


async def review_path(client: KubeClient, user: Mapping[str, Any], verb: str, path: str) -> SubjectAccessReviewStatus:
    """Return whether a user may use a verb on a path that is no resource. Raises KubeError and CredentialsError.

    `user` has the fields of SubjectAccessReviewSpec: user, uid, groups and extra.
    """
    spec = {**user, "nonResourceAttributes": {"verb": verb, "path": path}}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return (await client.create(SUBJECT_ACCESS_REVIEWS, "", review)).status


async def client_authorities(client: KubeClient) -> Mapping[str, str]:
    """Return which authorities vouch for callers, as the API server publishes it; empty if it does not.

    Raises KubeError and CredentialsError.
    """
    try:
        return (await client.get(CONFIG_MAPS, "kube-system", "extension-apiserver-authentication")).data
    except ApiError as error:
        if error.status_code == 404:
            return {}
        raise

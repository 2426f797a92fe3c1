"""Asks the API server what it allows us to do (authorization.k8s.io/v1, SelfSubjectAccessReview)."""

from extender_service.kube.connection.client import KubeClient
from extender_service.kube.resources.api_resources import PODS, Resource
from extender_service.kube.types.core import Object, ObjectMeta


class ReviewStatus(Object):
    """authorization.k8s.io/v1 SubjectAccessReviewStatus. With an evaluation error, `allowed` false may be wrong."""

    allowed: bool | None = None
    evaluation_error: str = ""


class AccessReview(Object):
    """authorization.k8s.io/v1 SelfSubjectAccessReview; we read only the answer."""

    metadata: ObjectMeta = ObjectMeta()
    status: ReviewStatus = ReviewStatus()


ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", AccessReview)


class UncertainReviewError(Exception):
    """The API server answered, but does not know whether it allows the request; the text says why."""


async def may_bind_pods(client: KubeClient, namespace: str = "") -> bool:
    """Return whether we may create pods/binding in a namespace; in all of them if it is empty.

    Raises UncertainReviewError, KubeError and CredentialsError.
    """
    attributes = {"verb": "create", "version": PODS.version, "resource": PODS.plural, "subresource": "binding"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {**attributes, "namespace": namespace}},
    }
    status = (await client.create(ACCESS_REVIEWS, "", review)).status
    if status.allowed:
        return True
    if status.allowed is None or status.evaluation_error:
        raise UncertainReviewError(status.evaluation_error or "the answer of the API server has no status")
    return False

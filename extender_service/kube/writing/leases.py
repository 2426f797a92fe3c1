"""Who holds a lease (coordination.k8s.io/v1): which of several candidates leads."""

from extender_service.kube.api_errors import ApiError
from extender_service.kube.api_resources import Resource
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.types.core import Object, ObjectMeta


class LeaseSpec(Object):
    """coordination.k8s.io/v1 LeaseSpec; kube-scheduler's identity is its host's name, "_" and a UUID."""

    holder_identity: str = ""


class Lease(Object):
    """coordination.k8s.io/v1 Lease."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


LEASES = Resource("coordination.k8s.io", "v1", "leases", Lease)


async def lease_holder(client: KubeClient, namespace: str, name: str) -> str:
    """Read who holds a lease; empty if nobody does, or there is none. Raises KubeError, CredentialsError."""
    try:
        lease = await client.get(LEASES, namespace, name)
    except ApiError as error:
        if error.status_code == 404:
            return ""
        raise
    return lease.spec.holder_identity

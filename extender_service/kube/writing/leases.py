"""Reads the holder of a lease (coordination.k8s.io/v1): the leader among several schedulers."""

from extender_service.kube.api_errors import ApiError
from extender_service.kube.api_resources import Resource
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.types.core import Object, ObjectMeta


class LeaseSpec(Object):
    """coordination.k8s.io/v1 LeaseSpec. kube-scheduler's identity is its host's name, "_" and a UUID."""

    holder_identity: str = ""


class Lease(Object):
    """coordination.k8s.io/v1 Lease."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


LEASES = Resource("coordination.k8s.io", "v1", "leases", Lease)


async def lease_holder(client: KubeClient, namespace: str, name: str) -> str:
    """Return the holder of a lease; empty if it has no holder or does not exist. Raises KubeError, CredentialsError."""
    try:
        lease = await client.get(LEASES, namespace, name)
    except ApiError as error:
        if error.status_code == 404:
            return ""
        raise
    return lease.spec.holder_identity

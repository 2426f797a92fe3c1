"""A pod's signature: plugins that treat pods alike give the same answers about pods that have the same one.

kube-scheduler asks each plugin what of a pod it reads, and puts its signature together from that (SignPlugin). Here it
is all that a plugin with `treats_alike` may read.
"""

from typing import Any

from msgspec import structs

from extender_service.cluster.pods.pod_volumes import volumes_that_matter
from extender_service.kube.types.core import Pod

PodSignature = tuple[Any, ...]


def pod_signature(pod: Pod) -> PodSignature | None:
    """Return what plugins that treat pods alike may depend on.

    None for a pod with volumes that scheduling reads, as most are its own.
    """
    if volumes_that_matter(pod):
        return None
    metadata = pod.metadata
    return (
        metadata.namespace,
        metadata.labels,
        metadata.annotations,
        metadata.owner_references,
        metadata.deletion_timestamp,
        # A service account's token is mounted from a volume whose name differs for each pod.
        structs.replace(pod.spec, volumes=()),
        pod.status,
    )


def may_share_signature(one: Pod, other: Pod) -> bool:
    """Return whether two pods may have the same signature: to compare these parts takes a fraction of what it takes."""
    return one.metadata.labels == other.metadata.labels and one.spec.containers == other.spec.containers

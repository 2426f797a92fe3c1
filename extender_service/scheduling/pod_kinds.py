"""Which pods are alike: plugins that treat pods alike give the same answers about them, one after the other."""

from typing import Any

from msgspec import structs

from extender_service.cluster.pods.pod_volumes import volumes_that_matter
from extender_service.kube.types.core import Pod

Kind = tuple[Any, ...]


def kind_of(pod: Pod) -> Kind | None:
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


def may_be_alike(one: Pod, other: Pod) -> bool:
    """Return whether two pods may be of the same kind: to compare these parts takes a fraction of what kinds take."""
    return one.metadata.labels == other.metadata.labels and one.spec.containers == other.spec.containers

"""Short ways to write nodes and pods in tests of plugins."""

from collections.abc import Mapping

from extender_service.kube.types.core import (
    Container,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    RawQuantity,
    ResourceRequirements,
)


def make_node(
    name: str,
    allocatable: Mapping[str, RawQuantity] | None = None,
    *,
    labels: Mapping[str, str] | None = None,
) -> Node:
    """Return a node that offers these amounts, as in `{"cpu": "4", "nvidia.com/gpu": 8}`."""
    metadata = ObjectMeta(name=name, labels=dict(labels or {}))
    return Node(metadata, status=NodeStatus(allocatable=dict(allocatable or {})))


def make_pod(
    name: str,
    requests: Mapping[str, RawQuantity] | None = None,
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    node_name: str = "",
) -> Pod:
    """Return a pod of one container with these requests; with a `node_name` it is bound. Its UID is NAMESPACE/NAME."""
    metadata = ObjectMeta(
        name=name,
        namespace=namespace,
        uid=f"{namespace}/{name}",
        labels=dict(labels or {}),
        annotations=dict(annotations or {}),
    )
    container = Container(resources=ResourceRequirements(requests=dict(requests or {})))
    return Pod(metadata, PodSpec(node_name=node_name, containers=(container,)))

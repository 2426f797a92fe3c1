"""Short ways to write nodes and pods in tests of plugins."""

from collections.abc import Iterable, Mapping

from extender_service.kube.types.core import (
    Container,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSchedulingGate,
    PodSpec,
    RawQuantity,
    ResourceRequirements,
    Taint,
    Toleration,
)


def make_node(
    name: str,
    allocatable: Mapping[str, RawQuantity] | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[Taint] = (),
    unschedulable: bool = False,
) -> Node:
    """Return a node that offers these amounts, as in `{"cpu": "4", "nvidia.com/gpu": 8}`.

    NodeResourcesFit needs `pods` among them. With `unschedulable`, the node is cordoned.
    """
    metadata = ObjectMeta(name=name, labels=dict(labels or {}))
    spec = NodeSpec(unschedulable=unschedulable, taints=tuple(taints))
    return Node(metadata, spec, NodeStatus(allocatable=dict(allocatable or {})))


def make_pod(
    name: str,
    requests: Mapping[str, RawQuantity] | None = None,
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    node_name: str = "",
    scheduler_name: str = "",
    priority: int = 0,
    node_selector: Mapping[str, str] | None = None,
    tolerations: Iterable[Toleration] = (),
    scheduling_gates: Iterable[str] = (),
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
    spec = PodSpec(
        node_name=node_name,
        scheduler_name=scheduler_name,
        priority=priority,
        node_selector=dict(node_selector or {}),
        tolerations=tuple(tolerations),
        scheduling_gates=tuple(PodSchedulingGate(name) for name in scheduling_gates),
        containers=(container,),
    )
    return Pod(metadata, spec)

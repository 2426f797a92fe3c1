"""Small clusters with storage for the tests of volume plugins."""

from collections.abc import Iterable

import numpy as np

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.cluster.volumes.storage_table import StorageObject
from extender_service.config.rules import DEFAULT_RULES, Rules
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter
from extender_service.framework.status import Status
from extender_service.kube.types.core import Node, Pod


def storage_cluster(
    nodes: Iterable[Node],
    storage: Iterable[StorageObject] = (),
    pods: Iterable[Pod] = (),
    *,
    rules: Rules = DEFAULT_RULES,
) -> Cluster:
    cluster = Cluster(rules)
    for node in nodes:
        cluster.apply_node(node)
    for item in storage:
        cluster.apply_storage(item)
    for pod in pods:
        cluster.apply_pod(pod)
    return cluster


def handle_of(cluster: Cluster) -> Handle:
    return Handle(cluster, ClusterFile(cluster, []))


def slot_of(cluster: Cluster, name: str, namespace: str = "default") -> int:
    slot = cluster._slot_by_key[namespace, name]
    assert isinstance(slot, int)
    return slot


def verdicts(plugin: Filter, state: CycleState, pod: Pod, nodes: NodeView) -> dict[str, Status | None]:
    """What Filter says of each node, by name."""
    rejections = plugin.filter(state, pod, nodes)
    keys = np.zeros(len(nodes), np.int64) if rejections is None else rejections.keys
    return {
        name: rejections.status_of(int(key)) if rejections is not None and key else None
        for name, key in zip(nodes.names, keys, strict=True)
    }

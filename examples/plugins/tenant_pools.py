"""TenantPools: several extension points in one class, which share what they found in the cycle state."""

import numpy as np
from numpy.typing import NDArray

from extender_service.plugin_api import (
    ABSENT,
    MAX_NODE_SCORE,
    NODE,
    SKIP,
    ActionType,
    ClusterEvent,
    CycleState,
    Filter,
    Node,
    NodeView,
    Pod,
    PreBind,
    PreFilter,
    PreScore,
    QueueingHint,
    Rejections,
    Score,
    Status,
    node_named,
    unresolvable,
)

TENANT = "example.com/tenant"
OTHER_TENANT = unresolvable("node(s) belonged to another tenant")


class TenantPools(PreFilter, Filter, PreScore, Score, PreBind):
    """Nodes with the label `example.com/tenant` are that tenant's own, all others are shared.

    A pod with the same label goes to its tenant's nodes, and to shared ones when these are full. Any other pod goes to
    shared nodes.
    """

    name = "TenantPools"
    treats_alike = True
    retry_on = (ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),)

    def pre_filter(self, state: CycleState, pod: Pod) -> None:
        """Read the pod's tenant, once for the whole decision. The plugin itself is a key that no other plugin uses."""
        state[self] = pod.metadata.labels.get(TENANT, "")

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Reject nodes of other tenants."""
        numbers, column = nodes.label(TENANT)
        own = column.values.number_of(state[self])
        others = (numbers != ABSENT) & (numbers != own)
        return Rejections.where(others, OTHER_TENANT) if others.any() else None

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: Node | None, new: Node) -> QueueingHint:
        """Try a rejected pod again when a node is shared or its tenant's own, and not for nodes of others."""
        owner = new.metadata.labels.get(TENANT, "")
        return QueueingHint.queue_if(owner in ("", pod.metadata.labels.get(TENANT, "")))

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> Status | None:
        """Skip pods of no tenant: all nodes left are shared."""
        return None if state[self] else SKIP

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        """Prefer the tenant's own nodes: only they, of those that passed the filter, have the label."""
        numbers, _ = nodes.label(TENANT)
        return np.where(numbers != ABSENT, MAX_NODE_SCORE, 0)

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Skip pods on their tenant's own nodes, so that no nomination is written for them: only shared nodes are given
        to tenants while pods run there."""
        tenant = pod.metadata.labels.get(TENANT)
        return SKIP if tenant and self._owner(node_name) == tenant else None

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Check again before the pod is bound: the node may have a new tenant since the decision."""
        return OTHER_TENANT if self._owner(node_name) not in ("", pod.metadata.labels.get(TENANT, "")) else None

    def _owner(self, node_name: str) -> str:
        node = node_named(self.handle.cluster, node_name)
        return "" if node is None else node.labels.get(TENANT, "")

"""Whether a node that was added or changed can help a pod at all (preCheckForNode in eventhandlers.go)."""

from collections.abc import Callable

import numpy as np

from extender_service.cluster.amounts.requests import (
    RequestRules,
    host_ports,
    host_ports_with_sidecars,
    pod_requests,
    request_shape,
)
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.state.node_info import NodeInfo, node_named
from extender_service.kube.parsing.quantities import QuantityError
from extender_service.kube.parsing.resource_names import is_scalar_resource
from extender_service.kube.parsing.selectors import required_node_affinity
from extender_service.kube.types.core import Pod, PodSpec
from extender_service.plugins.node_ports import conflict
from extender_service.plugins.shared.tolerations import NO_SCHEDULE, is_tolerated, tolerates_in

PreCheck = Callable[[Pod], bool]
"""Returns whether an event may help a pod, before the plugins are asked."""


def pre_check_for_node(cluster: Cluster, node_name: str) -> PreCheck:
    """Return a check of pods against a node as it is now.

    A pod passes if the node has room for it and the host ports that it asks for, and suits its node name, its required
    node affinity, and its tolerations of NoSchedule taints. Preemption could make room, and is left out, as in
    kube-scheduler. No pod passes if the node does not exist.
    """
    node = node_named(cluster, node_name)
    if node is None:
        return lambda _: False
    taints = [taint for taint in node.taints if taint.effect == NO_SCHEDULE]
    numbers, port_sets = cluster.view(np.array([cluster.nodes.row_of[node_name]])).port_sets()
    ports = port_sets[numbers[0]] or frozenset()
    ports_of = host_ports_with_sidecars if cluster.rules.sidecar_ports else host_ports
    tolerates = tolerates_in(cluster.rules)
    lacks = _Lacking(node, cluster.request_rules)

    def passes(pod: Pod) -> bool:
        spec = pod.spec
        return (
            spec.node_name in ("", node_name)
            and all(is_tolerated(taint, spec.tolerations, tolerates) for taint in taints)
            and not conflict(ports_of(spec), ports)
            and not lacks.any_for(spec)
            and _selects(spec, node)
        )

    return passes


class _Lacking:
    """What is left of a node, read once per resource."""

    def __init__(self, node: NodeInfo, rules: RequestRules) -> None:
        self._node = node
        self._rules = rules
        self._is_full = node.pod_count + 1 > node.allocatable("pods")
        self._free: dict[str, int] = {}

    def any_for(self, spec: PodSpec) -> bool:
        """Whether a pod requests more of something than is left (noderesources.Fits). A malformed request counts as
        met: the attempt reports it."""
        if self._is_full:
            return True
        try:
            amounts = pod_requests(request_shape(spec, self._rules)).amounts
        except QuantityError:
            return False
        return any(self._lacks(name, amount) for name, amount in amounts)

    def _lacks(self, name: str, amount: int) -> bool:
        if amount == 0 or (amount < 0 and not is_scalar_resource(name)):
            return False
        free = self._free.get(name)
        if free is None:
            free = self._free[name] = self._node.free(name)
        return amount > free


def _selects(spec: PodSpec, node: NodeInfo) -> bool:
    if spec.affinity is None and not spec.node_selector:
        return True
    return required_node_affinity(spec).matches(node.labels, node.name)

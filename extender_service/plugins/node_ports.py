"""NodePorts: two pods on one node cannot have the same host port."""

from collections.abc import Collection, Sequence
from typing import ClassVar

import numpy as np

from extender_service.cluster.amounts.requests import EVERY_ADDRESS, HostPort, host_ports, host_ports_with_sidecars
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.cluster_event import NODE, POD, ActionType, ClusterEvent, QueueingHint
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter, PreFilter, Reach
from extender_service.framework.status import SKIP, Rejections, Status, unschedulable
from extender_service.kube.types.core import Pod
from extender_service.plugins.shared.changed_nodes import node_changes
from extender_service.plugins.shared.changed_pods import pods_on_nodes, took_room
from extender_service.plugins.shared.event_objects import only_old

PORTS_TAKEN = unschedulable("node(s) didn't have free ports for the requested pod ports")

_WANTED = "PreFilterNodePorts"


class NodePorts(PreFilter, Filter):
    """Rejects nodes on which a host port of the pod is taken."""

    name: ClassVar[str] = "NodePorts"
    treats_alike: ClassVar[bool] = True
    reach: ClassVar[Reach] = Reach.NODE
    retry_on: Sequence[ClusterEvent] = (
        ClusterEvent(POD, ActionType.DELETE),
        ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE),
    )

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        if handle.rules.fewer_events_wake:
            self.retry_on = (
                ClusterEvent(pods_on_nodes(handle.rules), ActionType.DELETE),
                node_changes(handle.rules),
            )
        self._host_ports = host_ports_with_sidecars if handle.rules.sidecar_ports else host_ports

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | None:
        """Store the pod's host ports in the state; skip Filter if there are none."""
        wanted = self._host_ports(pod.spec)
        if not wanted:
            return SKIP
        state[_WANTED] = wanted
        return None

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Reject nodes where a wanted port is in use."""
        wanted = state.read(_WANTED, "reading")
        numbers, sets = nodes.port_sets()
        occurs = np.zeros(len(sets), np.bool_)
        occurs[numbers] = True
        conflicting = [number for number in np.flatnonzero(occurs).tolist() if conflict(wanted, sets[number] or ())]
        if not conflicting:
            return None
        conflicts = np.zeros(len(sets), np.bool_)
        conflicts[conflicting] = True
        return Rejections.where(conflicts[numbers], PORTS_TAKEN)

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: object, new: object) -> QueueingHint:
        """Queue for a pod that was deleted from a node and had a port that the pod wants, and for any node."""
        if event.resource == NODE:
            return QueueingHint.QUEUE
        deleted = only_old(Pod, old, None)
        wanted, freed = self._host_ports(pod.spec), self._host_ports(deleted.spec)
        return QueueingHint.queue_if(took_room(deleted, self.handle.rules) and conflict(wanted, freed))


def conflict(wanted: Collection[HostPort], used: Collection[HostPort]) -> bool:
    """Return whether a wanted port is in use (HostPortInfo.CheckConflict): same protocol and port, and the same address
    or 0.0.0.0 on either side."""
    return any(
        protocol == used_protocol
        and port == used_port
        and (address == used_address or EVERY_ADDRESS in (address, used_address))
        for address, protocol, port in wanted
        for used_address, used_protocol, used_port in used
    )

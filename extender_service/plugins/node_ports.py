"""NodePorts: two pods on one node cannot have the same host port."""

from collections.abc import Collection, Mapping, Sequence
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

# By protocol and port.
_AddressesByPort = Mapping[tuple[str, int], Collection[str]]


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
        state[_WANTED] = _addresses_by_port(wanted)
        return None

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Reject nodes where a wanted port is in use."""
        wanted = state.read(_WANTED, "reading")
        numbers, sets = nodes.port_sets()
        occurs = np.zeros(len(sets), np.bool_)
        occurs[numbers] = True
        conflicting = [number for number in np.flatnonzero(occurs).tolist() if _is_any_used(wanted, sets[number] or ())]
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
    return _is_any_used(_addresses_by_port(wanted), used)


def _addresses_by_port(ports: Collection[HostPort]) -> _AddressesByPort:
    by_port: dict[tuple[str, int], set[str]] = {}
    for address, protocol, port in ports:
        by_port.setdefault((protocol, port), set()).add(address)
    return by_port


def _is_any_used(wanted: _AddressesByPort, used: Collection[HostPort]) -> bool:
    """Return what `conflict` does. Both pods may have tens of thousands of ports: none is compared with each other."""
    if not wanted:
        return False
    for address, protocol, port in used:
        addresses = wanted.get((protocol, port))
        if addresses is not None and (address in addresses or address == EVERY_ADDRESS or EVERY_ADDRESS in addresses):
            return True
    return False

"""Changes of nodes that kube-scheduler does not report, or not to a pod that they let in."""

import math
from typing import Final

from extender_service.framework.events import NODE_DELETE
from extender_service.queue.queued_pod import QueuedPodInfo
from tests.worlds.actors.fitting import is_finished
from tests.worlds.api_server.kinds import NODES, PODS
from tests.worlds.invariants.insides import SchedulerInsides
from tests.worlds.invariants.observed import Observed
from tests.worlds.waits.history import History

# The plugins that reject a pod from a node for pods on others, and for others that are empty.
LOOK_AT_OTHER_PODS: Final = frozenset(("InterPodAffinity", "PodTopologySpread", "VolumeRestrictions"))
# Those that look at labels of pods, namespaces and nodes, and take no notice of some changes of these.
LOOK_AT_LABELS: Final = frozenset(("InterPodAffinity", "PodTopologySpread"))
_LOOK_AT_EMPTY_NODES: Final = frozenset(("PodTopologySpread",))


class MissedNodes:
    """What pods miss of nodes.

    - Without hints, kube-scheduler checks whether a node that has changed has room for a pod now, and only then asks
      the plugins that rejected the pod (preCheckForNode). So a pod that was rejected for a taint misses that the taint
      goes while the node is full; when a pod leaves that node, only pods are tried again that a plugin rejected which
      registered that. That is: the node has changed since the last attempt, in more than what its kubelet reports again
      and again; and a pod has left it since then, so that it may have been full.
    - What the end of a node changed for others counts, too. Its pods do not count any more for affinity, topology
      spread, and claims with ReadWriteOncePod; and where it had the fewest pods, topology spread allows more elsewhere.
      Before v1.32, kube-scheduler does not report that a node is gone; later, it asks the plugins that registered that.
      Others wait until its pods are deleted, too. That is: a node has gone since the last attempt; one of these plugins
      rejected the pod, and none that is asked; and pods are still on that node, unless the plugin is PodTopologySpread,
      to which an empty one matters, too.
    """

    def __init__(self, observed: Observed, history: History) -> None:
        self._etcd = observed.model.etcd
        self._history = history

    def may_have_been_full(self, leader: SchedulerInsides, name: str, since: float) -> bool:
        """Return whether a node has changed since a time, and a pod has left it after that."""
        history = self._history
        left_at = max((history.seen_at(leader, left) for left in history.pods_left.get(name, ())), default=-math.inf)
        changes = [change.happened for change in history.node_changes.get(name, ())]
        return any(each.at <= left_at and history.seen_at(leader, each) > since for each in changes)

    def has_gone(self, leader: SchedulerInsides, info: QueuedPodInfo, since: float) -> bool:
        """Return whether a node has gone without its pods, and no plugin that rejected this pod is asked about it."""
        asked = leader.queue._interested.of(NODE_DELETE) if leader.cluster.rules.node_deletions_reported else None
        rejected_by = info.unschedulable_plugins
        if not rejected_by & LOOK_AT_OTHER_PODS or (asked and rejected_by & asked.plugins):
            return False
        history = self._history
        gone = {
            name
            for name, changes in history.node_changes.items()
            if history.seen_at(leader, changes[-1].happened) > since and self._etcd.get(NODES, name) is None
        }
        on_nodes = {item.value["spec"].get("nodeName") for item in self._etcd.all(PODS) if not is_finished(item.value)}
        return bool(gone if rejected_by & _LOOK_AT_EMPTY_NODES else gone & on_nodes)

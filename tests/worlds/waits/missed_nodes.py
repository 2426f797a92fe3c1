"""Changes of nodes that kube-scheduler does not report, or not to a pod that they let in."""

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from extender_service.framework.events import NODE_DELETE
from extender_service.kube.parsing.selectors import required_node_affinity
from extender_service.kube.types.core import Pod
from extender_service.queue.pre_checks import pre_check_for_node
from extender_service.queue.queued_pod import QueuedPodInfo
from tests.worlds.actors.fitting import is_finished
from tests.worlds.api_server.etcd import Etcd
from tests.worlds.api_server.kinds import NODES, PODS
from tests.worlds.invariants.insides import SchedulerInsides
from tests.worlds.invariants.observed import Observed
from tests.worlds.waits.history import History, NodeChange, Object
from tests.worlds.waits.near import (
    anti_affinity_on_nodes,
    pods_on_nodes,
    required_affinity,
    required_anti_affinity,
    required_spread,
    selects,
)

# The plugins that reject a pod from a node for pods on others, and for others that are empty.
LOOK_AT_OTHER_PODS: Final = frozenset(("InterPodAffinity", "PodTopologySpread", "VolumeRestrictions"))
_LOOK_AT_EMPTY_NODES: Final = frozenset(("PodTopologySpread",))
# Those that look at labels of pods, namespaces and nodes, and take no notice of some changes of these.
LOOK_AT_LABELS: Final = frozenset(("InterPodAffinity", "PodTopologySpread"))


class MissedNodes:
    """What pods miss of nodes.

    - Without hints, kube-scheduler checks whether a node that has changed has room for a pod now, and only then asks
      the plugins that rejected the pod (preCheckForNode). So a pod that was rejected for a taint misses that the taint
      goes while the node is full; when a pod leaves that node, only pods are tried again that a plugin rejected which
      registered that. That is: the node has changed since the last attempt, in more than what its kubelet reports again
      and again; and a pod has left it since then, so that it may have been full.
    - So does a pod that was rejected for labels miss that a node with the right ones comes, if that has nothing to
      allocate at first. What it can allocate later is told to pods alone that a plugin rejected which registered that.
    - What the end of a node changed for others counts, too. Its pods do not count any more for affinity, topology
      spread, and claims with ReadWriteOncePod; and where it had the fewest pods, topology spread allows more elsewhere.
      Before v1.32, kube-scheduler does not report that a node is gone; later, it asks the plugins that registered that.
      Others wait until its pods are deleted, too. That is: a node has gone since the last attempt; one of these plugins
      rejected the pod, and none that is asked; and pods are still on that node, unless the plugin is PodTopologySpread,
      to which an empty one matters, too.
    - A node may let a pod in elsewhere: its pods count, or not any more, in another topology. Without hints, its check
      is passed only by pods that fit there. With hints, PodTopologySpread takes no notice of a node that the pod's node
      affinity does not select any more, nor InterPodAffinity of one on which the anti-affinity of other pods does not
      matter any more. That is: one of these rejected the pod, and since then a node has come with pods, or got such
      labels; and it does not pass the check now, or the hint compares other labels.
    """

    def __init__(self, observed: Observed, history: History) -> None:
        self._etcd = observed.model.etcd
        self._history = history

    def may_have_been_full(self, leader: SchedulerInsides, name: str, since: float) -> bool:
        """Return whether a node has changed since a time, and a pod has left it after that."""
        history = self._history
        left_at = max((history.seen_at(leader, left) for left in history.pods_left.get(name, ())), default=-math.inf)
        return any(
            each.happened.at <= left_at and history.seen_at(leader, each.happened) > since
            for each in history.node_changes.get(name, ())
        )

    def may_have_been_small(self, leader: SchedulerInsides, name: str, since: float) -> bool:
        """Return whether a node has come or changed since a time, and what it can allocate has changed after that."""
        has_changed = False
        for change in self._history.node_changes.get(name, ()):
            if _resizes(change):
                if has_changed:
                    return True
            elif self._history.seen_at(leader, change.happened) > since:
                has_changed = True
        return False

    def has_gone(self, leader: SchedulerInsides, info: QueuedPodInfo, since: float) -> bool:
        """Return whether a node has gone without its pods, and no plugin that rejected this pod is asked about it."""
        asked = leader.queue._interested.of(NODE_DELETE) if leader.cluster.rules.node_deletions_reported else None
        rejected_by = info.unschedulable_plugins
        if not rejected_by & LOOK_AT_OTHER_PODS or (asked and rejected_by.intersection(asked.plugins)):
            return False
        history = self._history
        gone = {
            name
            for name, changes in history.node_changes.items()
            if history.seen_at(leader, changes[-1].happened) > since and self._etcd.get(NODES, name) is None
        }
        on_nodes = {item.value["spec"].get("nodeName") for item in self._etcd.all(PODS) if not is_finished(item.value)}
        return bool(gone if rejected_by & _LOOK_AT_EMPTY_NODES else gone & on_nodes)

    def let_in_elsewhere(
        self, leader: SchedulerInsides, info: QueuedPodInfo, node_names: Collection[str], since: float
    ) -> bool:
        """Return whether a node has come, or got other labels, since a time, and lets in a pod without a notice to it.

        The pod fits on the nodes that are named.
        """
        if not info.unschedulable_plugins & LOOK_AT_LABELS:
            return False
        lately = [*self._labelled(leader, since)]
        if not lately:
            return False
        topologies = _topologies(self._etcd, info)
        if leader.cluster.rules.hints_replace_checks:
            compares = leader.cluster.rules.topologies_compared
            return any(
                topologies.affinity_skips(each, node_names, compares_labels=compares)
                or topologies.spread_skips(each, info.pod)
                for each in lately
            )
        occupied = {item.value["spec"]["nodeName"] for item in pods_on_nodes(self._etcd)}
        return any(
            topologies.matter(each, info.pod, occupied) and not pre_check_for_node(leader.cluster, each.name)(info.pod)
            for each in lately
        )

    def _labelled(self, leader: SchedulerInsides, since: float) -> Iterator["_Labelled"]:
        """Yield the nodes that have come, or got other labels, since a time, and are still there."""
        for name, changes in self._history.node_changes.items():
            if self._etcd.get(NODES, name) is not None:
                for change in changes:
                    labelled = _relabelled(name, change)
                    if labelled is not None and self._history.seen_at(leader, change.happened) > since:
                        yield labelled


class _Labelled(NamedTuple):
    """A node with other labels, or a new one: `before` is None then. `keys` are those of the labels that differ."""

    name: str
    before: Object | None
    after: Object
    keys: frozenset[str]


def _resizes(change: NodeChange) -> bool:
    if change.before is None or change.after is None:
        return False
    before, after = (each["status"].get("allocatable") for each in (change.before, change.after))
    return bool(before != after)


def _relabelled(name: str, change: NodeChange) -> _Labelled | None:
    if change.after is None:
        return None
    before, after = {} if change.before is None else _labels(change.before), _labels(change.after)
    keys = frozenset(key for key in {**before, **after} if before.get(key) != after.get(key))
    return _Labelled(name, change.before, change.after, keys) if keys else None


class _Topologies(NamedTuple):
    """The keys of the topologies that matter to a pod: of its affinity, of the anti-affinity of pods on nodes towards
    it, and of its spread. Those of plugins that did not reject it do not."""

    affinity: frozenset[str]
    towards: frozenset[str]
    spread: frozenset[str]

    def matter(self, node: _Labelled, pod: Pod, occupied: Collection[str]) -> bool:
        """Return whether a node that came with pods, or has other labels, may let the pod in elsewhere."""
        if node.before is None:
            return node.name in occupied and bool(node.keys & (self.affinity | self.spread))
        if node.keys & (self.affinity | self.towards | self.spread):
            return True
        return bool(self.spread) and _is_selected_otherwise(node, pod)

    def affinity_skips(self, node: _Labelled, node_names: Collection[str], *, compares_labels: bool) -> bool:
        """Return whether a node may let in a pod that is to be apart from none there, and the hint skips that."""
        if node.before is None:
            return bool(self.towards) and node.name in node_names and not self.affinity & _labels(node.after).keys()
        noticed = node.keys if compares_labels else _labels(node.after).keys()
        return bool(node.keys & self.towards) and not self.affinity & noticed

    def spread_skips(self, node: _Labelled, pod: Pod) -> bool:
        """Return whether a node may have come into, or have left, what the spread counts, and the hint skips that."""
        if not self.spread or node.before is None or node.keys & self.spread:
            return False
        has_same_taints = node.before["spec"].get("taints") == node.after["spec"].get("taints")
        return has_same_taints and _is_selected_otherwise(node, pod)


def _topologies(etcd: Etcd, info: QueuedPodInfo) -> _Topologies:
    pod, rejected_by = info.pod, info.unschedulable_plugins
    affinity, towards, spread = frozenset[str](), frozenset[str](), frozenset[str]()
    if "InterPodAffinity" in rejected_by:
        own = (*required_affinity(pod), *required_anti_affinity(pod))
        affinity = frozenset(term.topology_key for term in own)
        towards = frozenset(term.topology_key for term in anti_affinity_on_nodes(etcd) if selects(etcd, term, pod))
    if "PodTopologySpread" in rejected_by:
        spread = frozenset(constraint.topology_key for constraint in required_spread(pod))
    return _Topologies(affinity, towards, spread)


def _is_selected_otherwise(node: _Labelled, pod: Pod) -> bool:
    """Return whether a pod's node affinity selects a node by its labels before, and not now, or the reverse."""
    selector, before = required_node_affinity(pod.spec), {} if node.before is None else _labels(node.before)
    return selector.matches(before, node.name) != selector.matches(_labels(node.after), node.name)


def _labels(node: Object) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}

"""Changes of pods, and of their namespaces, of which the plugins that rejected a pod take no notice."""

from collections.abc import Mapping

from extender_service.config.rules import Rules
from extender_service.kube.parsing.pod_affinity import AffinityTerm
from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.pods import pod_uid
from extender_service.queue.queued_pod import QueuedPodInfo
from tests.worlds.actors.fitting import is_finished
from tests.worlds.api_server.kinds import PODS
from tests.worlds.invariants.insides import SchedulerInsides
from tests.worlds.invariants.observed import Observed
from tests.worlds.waits.history import History, NamespaceChange, PodChange, decoded
from tests.worlds.waits.near import (
    anti_affinity_on_nodes,
    pods_on_nodes,
    required_affinity,
    required_anti_affinity,
    required_spread,
    selects,
)


class MissedPods:
    """What pods miss of others.

    - With hints, InterPodAffinity takes no notice of the end of some pods: before v1.36, of one whose anti-affinity
      kept this pod out; before v1.37, of one that matched not all terms of this pod's; and of one that a term means by
      the labels of its namespace. That is: it rejected the pod, and since then such a pod has ended, or got other
      labels. Nor does it take notice of a pod that has come to a node, or got other labels, and that this pod's
      affinity means by the labels of its namespace; nor, before v1.36, of other labels of this pod itself; nor of the
      end, or other labels, of the last pod that it was to be near to, and is like itself: then it may be the first of
      its kind.
    - No event is about a namespace, so it misses other labels of these, too. That is: it rejected the pod, and since
      then a namespace has got labels by which this pod's affinity means it, or not any more, or by which this pod's
      anti-affinity, or that of a pod on a node towards this one, does not mean it any more.
    - PodTopologySpread counts a pod no more from when it is being deleted on, and takes no notice before it is gone.
      That is: it rejected the pod, since then a pod that its constraints count has been marked for deletion, and that
      is still there.
    """

    def __init__(self, observed: Observed, history: History) -> None:
        self._etcd = observed.model.etcd
        self._history = history

    def have_changed(self, leader: SchedulerInsides, info: QueuedPodInfo, since: float) -> bool:
        """Return whether a plugin that rejected a pod has taken no notice of what has changed since a time."""
        rejected_by = info.unschedulable_plugins
        if "InterPodAffinity" in rejected_by and self._affinity_misses(leader, info.pod, since):
            return True
        return "PodTopologySpread" in rejected_by and self._spread_misses(leader, info.pod, since)

    # What PodTopologySpread misses:

    def _spread_misses(self, leader: SchedulerInsides, pod: Pod, since: float) -> bool:
        history, constraints = self._history, required_spread(pod)
        lately = (ending for happened, ending in history.pods_ending if history.seen_at(leader, happened) > since)
        return any(
            ending.metadata.namespace == pod.metadata.namespace
            and any(constraint.selector.matches(ending.metadata.labels) for constraint in constraints)
            and self._is_there(ending)
            for ending in lately
        )

    def _is_there(self, pod: Pod) -> bool:
        item = self._etcd.get(PODS, pod_name(pod))
        return item is not None and not is_finished(item.value) and item.value["metadata"]["uid"] == pod_uid(pod)

    # What InterPodAffinity misses:

    def _affinity_misses(self, leader: SchedulerInsides, pod: Pod, since: float) -> bool:
        rules, history = leader.cluster.rules, self._history
        relabelled = (each for each in history.namespace_changes if history.seen_at(leader, each.happened) > since)
        if any(self._is_meant_otherwise(change, pod) for change in relabelled):
            return True
        if not rules.queueing_hints:
            return False
        lately = (change for change in history.pod_changes if history.seen_at(leader, change.happened) > since)
        return any(self._is_missed(change, pod, rules) for change in lately)

    def _is_meant_otherwise(self, change: NamespaceChange, pod: Pod) -> bool:
        """Return whether other labels of a namespace may let a pod in."""
        _, name, before, after = change
        # Where it means no pods any more, it lets the first one of its kind in.
        if any(_means(term, name, before) != _means(term, name, after) for term in required_affinity(pod)):
            return True
        if any(_means(term, name, before) and not _means(term, name, after) for term in required_anti_affinity(pod)):
            return True
        return name == pod.metadata.namespace and any(
            term.matches(name, pod.metadata.labels, before) and not term.matches(name, pod.metadata.labels, after)
            for term in anti_affinity_on_nodes(self._etcd)
        )

    def _is_missed(self, change: PodChange, pod: Pod, rules: Rules) -> bool:
        """Return whether a change of a pod may let another one in, or other labels the pod itself, without a notice."""
        _, before, after = change
        has_other_labels = before is not None and after is not None and before.metadata.labels != after.metadata.labels
        if change.is_of(pod):
            return has_other_labels and not rules.anti_affinity_of_others_wakes
        if after is not None and self._comes_unnoticed(before, after, pod):
            return True
        has_gone = after is None or has_other_labels
        return before is not None and has_gone and self._goes_unnoticed(before, after, pod, rules)

    def _comes_unnoticed(self, before: Pod | None, after: Pod, pod: Pod) -> bool:
        """Return whether a pod on a node matches the affinity of another one since it changed, without a notice."""
        near = required_affinity(pod)

        def is_met(by: Pod | None) -> bool:
            return by is not None and bool(by.spec.node_name) and all(selects(self._etcd, term, by) for term in near)

        is_noticed = all(_matches_by_name(term, after) for term in near)
        return not is_noticed and is_met(after) and not is_met(before)

    def _goes_unnoticed(self, before: Pod, after: Pod | None, pod: Pod, rules: Rules) -> bool:
        """Return whether a pod may have kept another one out until it changed, without a notice to that."""
        apart, others = required_anti_affinity(pod), () if after is not None else required_anti_affinity(before)
        kept = [term for term in apart if selects(self._etcd, term, before)]
        is_noticed = any if rules.any_anti_affinity_term_wakes else all
        if kept and not is_noticed(_matches_by_name(term, before) for term in apart):
            return True
        was_kept = any(selects(self._etcd, term, pod) for term in others)
        is_reported = rules.anti_affinity_of_others_wakes and all(_matches_by_name(term, pod) for term in others)
        return (was_kept and not is_reported) or self._was_last_of_its_kind(before, pod)

    def _was_last_of_its_kind(self, before: Pod, pod: Pod) -> bool:
        """Return whether a pod was the last one on a node that another one was to be near to, which is of that kind."""
        near = required_affinity(pod)

        def is_meant(other: Pod) -> bool:
            return all(selects(self._etcd, term, other) for term in near)

        if not (near and before.spec.node_name and is_meant(before) and is_meant(pod)):
            return False
        return not any(is_meant(decoded(item)) for item in pods_on_nodes(self._etcd))


def _means(term: AffinityTerm, namespace: str, labels: Mapping[str, str]) -> bool:
    """Return whether a term selects pods of a namespace with these labels."""
    return namespace in term.namespaces or term.namespace_selector.matches(labels)


def _matches_by_name(term: AffinityTerm, pod: Pod) -> bool:
    """Return whether a term selects a pod where no labels of namespaces are known, as hints have it."""
    return term.matches(pod.metadata.namespace, pod.metadata.labels, {})

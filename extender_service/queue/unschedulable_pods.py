"""Pods that wait for a change of the cluster, found by the plugins that rejected them (UnschedulablePods).

kube-scheduler looks at every such pod for every event. Here an event meets only the pods that it can move: pods are
indexed by their plugins, those of PodTopologySpread also by namespace, and those with required affinity by its terms.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TypeVar

from extender_service.config.rules import Rules
from extender_service.kube.parsing.pod_affinity import AffinityTerm, pod_affinity_terms
from extender_service.kube.types.core import Pod
from extender_service.queue.queued_pod import QueuedPodInfo

POD_TOPOLOGY_SPREAD = "PodTopologySpread"
SCHEDULING_GATES = "SchedulingGates"

_Infos = dict[str, QueuedPodInfo]
_Name = TypeVar("_Name")


class UnschedulablePods:
    """The pods by key. `profiles` are the scheduler names whose plugins have said which events they want.

    `unschedulable_count` and `gated_count` are kube-scheduler's gauges. Before v1.36, they change only when a pod comes
    or goes, by what `gated` is then. So they drift where a pod becomes gated while it is here; see
    docs/scheduler-queue.md.
    """

    def __init__(self, profiles: Container[str], rules: Rules) -> None:
        self._profiles = profiles
        self._follows_gates = rules.gates_counted_once
        self._freezes = not rules.gating_plugin_remembered
        self._infos: _Infos = {}
        self._under: dict[str, tuple[str, ...]] = {}
        # What events cannot move is in no list: pods with a gate of their own.
        self._by_plugin: dict[str, _Infos] = {}
        self._spread_in: dict[str, _Infos] = {}
        self._terms_of: dict[str, tuple[AffinityTerm, ...]] = {}
        self._by_terms: dict[tuple[AffinityTerm, ...], _Infos] = {}
        self.unschedulable_count = 0
        self.gated_count = 0

    def __len__(self) -> int:
        return len(self._infos)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return iter(self._infos.values())

    def get(self, key: str) -> QueuedPodInfo | None:
        """Return the pod of a key, None if there is none."""
        return self._infos.get(key)

    def add_or_update(self, info: QueuedPodInfo, *, gated_before: bool = False) -> bool:
        """Add a pod, or take in that its plugins, its gate or the pod itself are others than before.

        Returns whether it was not here. `gated_before` says whether a pod that was here had a gate.
        """
        key = info.key
        is_new = key not in self._infos
        if is_new:
            self._count(info.gated, 1)
        elif self._follows_gates and gated_before != info.gated:
            self._count(gated_before, -1)
            self._count(info.gated, 1)
        self._infos[key] = info
        self._index(key, info)
        return is_new

    def remove(self, key: str, *, gated: bool) -> None:
        """Remove the pod of a key; nothing happens if there is none. `gated` chooses the count that goes down."""
        if self._infos.pop(key, None) is not None:
            self._count(gated, -1)
            self._unindex(key)

    def rejected_by(self, plugins: Iterable[str]) -> list[QueuedPodInfo]:
        """Return the pods that an event for these plugins may move: those that one of them rejected.

        Pods that no plugin rejected, or whose profile is unknown, are moved by every event.
        """
        found: _Infos = {}
        for plugin in ("", *plugins):
            found |= self._by_plugin.get(plugin, {})
        return list(found.values())

    def near(self, pod: Pod, namespace_labels: Mapping[str, str]) -> list[QueuedPodInfo]:
        """Return the pods that PodTopologySpread rejected in the namespace of a pod, and those with a required affinity
        term that selects it (getUnschedulablePodsWithCrossTopologyTerm)."""
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        found = dict(self._spread_in.get(namespace, {}))
        for terms, infos in self._by_terms.items():
            if any(term.matches(namespace, labels, namespace_labels) for term in terms):
                found |= infos
        return list(found.values())

    def _count(self, gated: bool, change: int) -> None:  # noqa: FBT001
        if gated:
            self.gated_count += change
        else:
            self.unschedulable_count += change

    def _index(self, key: str, info: QueuedPodInfo) -> None:
        self._unindex(key)
        spec, namespace = info.pod.spec, info.pod.metadata.namespace
        if self._freezes and is_frozen(info):
            return
        plugins = info.unschedulable_plugins | info.pending_plugins
        if not plugins or spec.scheduler_name not in self._profiles:
            plugins |= {""}
        for plugin in plugins:
            self._by_plugin.setdefault(plugin, {})[key] = info
        self._under[key] = tuple(plugins)
        if POD_TOPOLOGY_SPREAD in info.unschedulable_plugins:
            self._spread_in.setdefault(namespace, {})[key] = info
        terms = pod_affinity_terms(namespace, spec.affinity).required
        if terms:
            self._terms_of[key] = terms
            self._by_terms.setdefault(terms, {})[key] = info

    def _unindex(self, key: str) -> None:
        for plugin in self._under.pop(key, ()):
            _remove(self._by_plugin, plugin, key)
            if plugin == POD_TOPOLOGY_SPREAD:
                namespace = key.partition("/")[0]
                _remove(self._spread_in, namespace, key)
        terms = self._terms_of.pop(key, None)
        if terms is not None:
            _remove(self._by_terms, terms, key)


def is_frozen(info: QueuedPodInfo) -> bool:
    """Return whether no event can move a pod, since it has a scheduling gate: it waits for an update of its own.

    From v1.34 on, an event moves a gated pod if the plugin that gates it has registered the event.
    """
    return info.gated and SCHEDULING_GATES in info.unschedulable_plugins


def _remove(lists: "dict[_Name, _Infos]", name: "_Name", key: str) -> None:
    infos = lists.get(name)
    if infos is not None and infos.pop(key, None) is not None and not infos:
        del lists[name]

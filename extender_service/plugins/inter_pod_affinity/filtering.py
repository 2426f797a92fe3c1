"""Which nodes the required affinity and anti-affinity of pods rule out (interpodaffinity/filtering.go)."""

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.nodes.label_columns import ABSENT, LabelColumn
from extender_service.cluster.nodes.node_table import NodeTable
from extender_service.cluster.owners.owners import Workloads
from extender_service.cluster.pods.pod_counts import PodCounts, PodQuery
from extender_service.cluster.pods.running_terms import TermCounts
from extender_service.cluster.selection.label_sets import LabelSet, PodSelector
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.kube.parsing.pod_affinity import PodAffinityTerms
from extender_service.plugins.inter_pod_affinity.terms import selected_pods
from extender_service.plugins.shared.node_matching import Mask
from extender_service.plugins.shared.topology import Amounts, Numbers, are_few, is_present

# For so many topology keys, it is found out whether verdicts are those of an earlier decision.
_MOST_KEYS = 4


class Occupied(NamedTuple):
    """In which topologies of a key there are such pods: a byte for each number of the label's value, 0 where none."""

    key: str
    column: LabelColumn
    by_value: bytes

    def on(self, nodes: NodeView) -> Mask:
        """Return which nodes are in such a topology."""
        mask: Mask = np.frombuffer(self.by_value, np.bool_).take(nodes.label(self.key)[0])
        return mask


class OccupiedTopologies(NamedTuple):
    """All that verdicts on nodes depend on besides the labels of these: where pods are that the pod has to be near,
    that it keeps apart from, and that keep apart from it."""

    near: tuple[Occupied, ...]
    apart: tuple[Occupied, ...]
    unwanted: tuple[Occupied, ...]

    def not_near(self, nodes: NodeView) -> Mask | None:
        """Return what AffinityRequirement.not_near does."""
        if not self.near:
            return None
        first, *others = [occupied.on(nodes) for occupied in self.near]
        for other in others:
            first &= other
        return ~first

    def not_apart(self, nodes: NodeView) -> Mask | None:
        """Return what AffinityRequirement.not_apart does."""
        return _in_any(self.apart, nodes)

    def not_wanted(self, nodes: NodeView) -> Mask | None:
        """Return what AffinityRequirement.unwanted does."""
        return _in_any(self.unwanted, nodes)


def _in_any(topologies: Iterable[Occupied], nodes: NodeView) -> Mask | None:
    near: Mask | None = None
    for occupied in topologies:
        mask = occupied.on(nodes)
        near = mask if near is None else near | mask
    return near


class AffinityRequirement:
    """What a pod and the running pods require of each other. Pods are counted once for each table of nodes.

    A node's own world adds its pods to the topologies of that node, as AddPod and RemovePod do.
    """

    def __init__(
        self, cluster: Cluster, label_set: LabelSet, terms: PodAffinityTerms, unwanted_by: Collection[TermCounts]
    ) -> None:
        """`label_set` and `terms` are the pod's; `unwanted_by` are the running pods' terms that match it."""
        self._cluster = cluster
        self._label_set = label_set
        workloads, everywhere = cluster.workloads, cluster.view(None)
        self._namespace_labels = workloads.namespace_labels(label_set.namespace)
        queries = _NO_QUERIES
        if terms.required or terms.required_anti:
            queries = everywhere.remembered_at(workloads.change_count, _queries, workloads, terms)
        self._near_keys, self._near, self._apart = queries
        self._unwanted_by = unwanted_by
        self._unwanted_by_set: dict[int, list[str]] = {}
        # By topology key: pods by the number of the label's value, and 0 for nodes without it.
        self._near_pods: dict[str, Amounts] = {}
        self._apart_pods: dict[str, Amounts] = {}
        self._unwanted_pods: dict[str, Amounts] = {}
        self._table: NodeTable | None = None
        if self._near_keys or self._apart or self._unwanted_by:
            self._count(everywhere)

    @property
    def is_empty(self) -> bool:
        """Whether no node can be ruled out."""
        return not self._near_keys and not self._apart and not self._unwanted_pods

    def occupied(self, nodes: NodeView) -> OccupiedTopologies | None:
        """Return what verdicts on these nodes depend on; None if that is much, such as pods on hosts instead of in
        zones, or if nodes have other pods in their own worlds."""
        if nodes.is_changed:
            return None
        self._count(nodes)
        counted = (*self._near_pods.values(), *self._apart_pods.values(), *self._unwanted_pods.values())
        if len(counted) > _MOST_KEYS or not all(are_few(len(pods), nodes) for pods in counted):
            return None
        near = {key: pods > 0 for key, pods in self._near_pods.items()}
        if near and self._matches_itself and not any(np.count_nonzero(has_pods) for has_pods in near.values()):
            for has_key in near.values():  # the first of a group of pods
                has_key[:ABSENT] = True
        apart = {key: pods > 0 for key, pods in self._apart_pods.items()}
        unwanted = {key: pods > 0 for key, pods in self._unwanted_pods.items()}
        return OccupiedTopologies(_occupied(near, nodes), _occupied(apart, nodes), _occupied(unwanted, nodes))

    def not_near(self, nodes: NodeView) -> Mask | None:
        """Return the nodes that are not near a pod that matches all terms of affinity; None without such terms.

        The first of a group of pods that want to be near each other may go to any node that has all topology keys.
        """
        if not self._near_keys:
            return None
        self._count(nodes)
        has_keys, is_near = np.ones(len(nodes), np.bool_), np.ones(len(nodes), np.bool_)
        added = self._added({self._near.selectors: 1}, nodes)
        topologies = np.full(len(nodes), sum(np.count_nonzero(pods) for pods in self._near_pods.values()))
        for key in self._near_keys:
            numbers, _ = nodes.label(key)
            pods = _in_own_world(self._near_pods[key], numbers, added)
            has_keys &= is_present(numbers)
            is_near &= pods > 0
            if added is not None:
                topologies += (pods != 0).astype(np.intp) - (self._near_pods[key][numbers] != 0)
        if self._matches_itself:
            is_near |= topologies == 0
        return ~(has_keys & is_near)

    def not_apart(self, nodes: NodeView) -> Mask | None:
        """Return the nodes that are near a pod that matches a term of anti-affinity; None without such terms."""
        if not self._apart:
            return None
        self._count(nodes)
        added = {
            key: self._added({query.selectors: times for query, times in queries.items()}, nodes)
            for key, queries in self._apart.items()
        }
        return _are_near(nodes, self._apart_pods, added)

    def unwanted(self, nodes: NodeView) -> Mask | None:
        """Return the nodes near a pod with a term of anti-affinity that matches this pod; None without such pods, and
        where `not_apart` returns all of these nodes."""
        self._count(nodes)
        unwanted = self._unwanted_pods
        if self._apart and not nodes.is_changed and all(map(self._keeps_apart_from, unwanted, unwanted.values())):
            return None
        return _are_near(nodes, self._unwanted_pods, self._unwanted_added(nodes))

    def _keeps_apart_from(self, key: str, pods: Amounts) -> bool:
        """Return whether the pod keeps apart from all topologies of a key that these pods are in.

        Mostly so where pods alike keep apart from each other. Looking at topologies takes less than looking at nodes.
        """
        apart = self._apart_pods.get(key)
        return apart is not None and not np.count_nonzero((pods > 0) > (apart > 0))

    @cached_property
    def _matches_itself(self) -> bool:
        namespace, labels = self._label_set.namespace, self._label_set.labels
        return all(pods.matches(namespace, labels) for pods in self._near.selectors)

    def _count(self, nodes: NodeView) -> None:
        if self._table is nodes.table:
            return
        self._table = nodes.table
        everywhere = nodes.everywhere()
        counts = self._cluster.pod_counts
        self._near_pods = {}
        if self._near_keys:
            labels = map(everywhere.label, self._near_keys)
            sized = ((numbers, column.values.size) for numbers, column in labels)
            near = counts.by_values(self._near, len(everywhere), sized)
            self._near_pods = dict(zip(self._near_keys, near, strict=True))
        self._apart_pods = {key: _sum(counts, queries, everywhere, key) for key, queries in self._apart.items()}
        unwanted: dict[str, Amounts] = {}
        for term in self._unwanted_by:
            key = term.key.term.topology_key
            numbers, column = everywhere.label(key)
            if key not in unwanted:
                unwanted[key] = np.zeros(column.values.size + 1, np.int64)
            self._cluster.pods.anti_affinity.add_by_value(term, unwanted[key], numbers)
        for sums in unwanted.values():
            sums[ABSENT] = 0
        self._unwanted_pods = {key: sums for key, sums in unwanted.items() if np.count_nonzero(sums)}

    def _added(self, queries: Mapping[tuple[PodSelector, ...], int], nodes: NodeView) -> Amounts | None:
        """Return how many more (or fewer) pods each node has in its own world, each as often as the queries that match
        are given."""
        if not nodes.is_changed:
            return None
        more = (times * nodes.pods_added(selectors) for selectors, times in queries.items())
        return sum(more, start=np.zeros(len(nodes), np.int64))

    def _unwanted_added(self, nodes: NodeView) -> dict[str, Amounts | None]:
        if not nodes.is_changed:
            return dict.fromkeys(self._unwanted_pods)
        return {key: nodes.added((self, key), partial(self._unwanting, key)) for key in self._keys_of_anti_affinity}

    @cached_property
    def _keys_of_anti_affinity(self) -> set[str]:
        """Return the topology keys of all terms of anti-affinity: a node's own world may add any pod to it."""
        term_sets = self._cluster.pods.term_sets
        return {term.topology_key for _, terms in term_sets for term in terms.required_anti}

    def _unwanting(self, key: str, slots: NDArray[np.intp]) -> Amounts:
        """Return for each slot how many anti-affinity terms of its pod have this topology key and match the pod."""
        pods = self._cluster.pods
        numbers = pods.term_set[slots]
        has = np.zeros(pods.term_sets.size, np.bool_)
        has[numbers] = True
        counts = np.zeros(pods.term_sets.size, np.int64)
        for number in np.flatnonzero(has).tolist():
            counts[number] = self._unwanted_near(number).count(key)
        return counts[numbers]

    def _unwanted_near(self, number: int) -> list[str]:
        """Return the topology keys of a term set's terms of anti-affinity that match the pod."""
        found = self._unwanted_by_set.get(number)
        if found is None:
            terms = self._cluster.pods.term_sets.values[number]
            required = () if terms is None else terms.required_anti
            namespace, labels = self._label_set.namespace, self._label_set.labels
            found = [term.topology_key for term in required if term.matches(namespace, labels, self._namespace_labels)]
            self._unwanted_by_set[number] = found
        return found


class _Queries(NamedTuple):
    """The topology keys of affinity, the pods that match all of its terms, and those of anti-affinity by key, with the
    number of equal terms."""

    near_keys: list[str]
    near: PodQuery
    apart: dict[str, dict[PodQuery, int]]


_NO_QUERIES = _Queries([], PodQuery(()), {})


def _queries(_nodes: NodeView, _version: int, workloads: Workloads, terms: PodAffinityTerms) -> _Queries:
    """Return which pods the required terms of a pod match, as of a version of the namespaces."""
    apart: dict[str, dict[PodQuery, int]] = {}
    for term in terms.required_anti:
        queries, query = apart.setdefault(term.topology_key, {}), PodQuery((selected_pods(term, workloads),))
        queries[query] = queries.get(query, 0) + 1
    near_keys = list(dict.fromkeys(term.topology_key for term in terms.required))
    return _Queries(near_keys, PodQuery(tuple(selected_pods(term, workloads) for term in terms.required)), apart)


def _occupied(by_key: Mapping[str, NDArray[np.bool_]], nodes: NodeView) -> tuple[Occupied, ...]:
    return tuple([Occupied(key, nodes.label(key)[1], has_pods.tobytes()) for key, has_pods in by_key.items()])


def _sum(counts: PodCounts, queries: Mapping[PodQuery, int], nodes: NodeView, key: str) -> Amounts:
    """Add up the pods of some queries, each as often as it is given, by the number of the label's value.

    There may be thousands: so the counts are added one after the other, and not kept side by side.
    """
    numbers, column = nodes.label(key)
    total: Amounts | None = None
    for query, times in queries.items():
        pods = counts.by_value(query, numbers, column.values.size)
        if times > 1:
            pods = times * pods
        total = pods if total is None else total + pods
    assert total is not None
    return total


def _are_near(nodes: NodeView, pods_by_key: Mapping[str, Amounts], added: Mapping[str, Amounts | None]) -> Mask | None:
    near: Mask | None = None
    for key, added_here in added.items():
        numbers, column = nodes.label(key)
        pods = pods_by_key.get(key)
        by_value = np.zeros(column.values.size + 1, np.int64) if pods is None else pods
        if added_here is None:
            near_here = (by_value > 0).take(numbers)
        else:
            near_here = _in_own_world(by_value, numbers, added_here) > 0
        near = near_here if near is None else near | near_here
    return near


def _in_own_world(by_value: Amounts, numbers: Numbers, added: Amounts | None) -> Amounts:
    """Return how many pods are in each node's topology, with those of its own world; 0 where the node has no label."""
    pods: Amounts = by_value.take(numbers)
    return pods if added is None else pods + np.where(is_present(numbers), added, 0)

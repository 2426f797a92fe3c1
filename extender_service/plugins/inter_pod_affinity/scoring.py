"""What pods prefer to be near of, added up by topology (interpodaffinity/scoring.go)."""

import numpy as np

from extender_service.cluster.nodes.label_columns import ABSENT, LabelColumn
from extender_service.cluster.pods.pod_counts import PodCounts, PodQuery
from extender_service.cluster.pods.running_terms import RunningTerms, TermCounts
from extender_service.cluster.selection.label_sets import LabelSet
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.structures.extremes import highest_of, lowest_of
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.interface import MAX_NODE_SCORE
from extender_service.kube.parsing.pod_affinity import PodAffinityTerms
from extender_service.plugins.inter_pod_affinity.terms import selected_pods
from extender_service.plugins.shared.topology import Amounts, Numbers, all_have_label, are_few


class AffinityPreference:
    """The weights of all terms of a pod that match running pods, and of their terms that match it.

    Required terms of running pods count with `required_weight`, unless that is 0.
    """

    def __init__(
        self,
        cluster: Cluster,
        label_set: LabelSet,
        terms: PodAffinityTerms,
        everywhere: NodeView,
        required_weight: int,
    ) -> None:
        """`label_set` and `terms` are the pod's."""
        by_key: dict[str, _Topology] = {}

        def topology(key: str) -> _Topology:
            return by_key[key] if key in by_key else by_key.setdefault(key, _Topology(everywhere, key))

        for weighted in (*terms.preferred, *terms.preferred_anti):
            pods = PodQuery((selected_pods(weighted.term, cluster.workloads),))
            topology(weighted.term.topology_key).add_pods(cluster.pod_counts, pods, weighted.weight)
        namespace_labels = cluster.workloads.namespace_labels(label_set.namespace)
        terms_of_running = cluster.pods.affinity
        for running in terms_of_running.about(label_set, namespace_labels):
            weight = required_weight if running.key.weight is None else running.key.weight
            if weight or running.key.weight is not None:
                topology(running.key.term.topology_key).add_term(terms_of_running, running, weight)
        # By topology key: the label's column, and the weight by the number of its value, 0 for nodes without it.
        self._weights = {
            key: (topology.column, topology.weights) for key, topology in by_key.items() if topology.is_touched
        }

    @property
    def is_empty(self) -> bool:
        """Whether no term concerns any node."""
        return not self._weights

    def scores(self, nodes: NodeView) -> Amounts:
        """Return the sum of the weights for each node; call it only if `is_empty` is false."""
        total, *others = [_weights_of(nodes, key, *weights) for key, weights in self._weights.items()]
        for weights in others:  # mostly of two keys: np.sum takes several times as long
            total = total + weights
        return total

    def points(self, nodes: NodeView, scores: Amounts) -> Amounts:
        """Return what `points_of` returns for the scores of the nodes."""
        if len(self._weights) == 1:
            [(key, (column, weights))] = self._weights.items()
            numbers, current = nodes.label(key)
            if current is column and are_few(len(weights), nodes):
                # The same numbers for each value, in a fraction of the time where many nodes share one.
                of_nodes = weights.take(nodes.remembered_at(column, _values, key))
                lowest, highest = int(lowest_of(of_nodes)), int(highest_of(of_nodes))
                by_value: Amounts = _scaled(weights, lowest, highest).take(numbers)
                return by_value
        return points_of(scores)


def points_of(scores: Amounts) -> Amounts:
    """Scale the scores of nodes linearly: the lowest becomes 0, the highest 100 points."""
    return _scaled(scores, int(lowest_of(scores)), int(highest_of(scores)))


def _scaled(scores: Amounts, lowest: int, highest: int) -> Amounts:
    if lowest == highest:
        return np.zeros(len(scores), np.int64)
    # Converted first, in a third of the time that dividing integers takes.
    shares = (scores - lowest).astype(np.float64)
    shares /= highest - lowest
    shares *= MAX_NODE_SCORE
    return shares.astype(np.int64)


def _values(nodes: NodeView, column: LabelColumn, key: str) -> Numbers:
    """Return the numbers of the values that some of the nodes have, and the last number if a node has none."""
    has_value = np.zeros(column.values.size + 1, np.bool_)
    has_value[nodes.label(key)[0]] = True
    return has_value.nonzero()[0]


def _weights_of(nodes: NodeView, key: str, column: LabelColumn, weights: Amounts) -> Amounts:
    numbers, current = nodes.label(key)
    # The label may have got a new column since, which numbers its values in another way.
    found: Amounts = weights.take(numbers) if current is column else nodes.of_rows(weights[column.numbers])
    return found


class _Topology:
    """By the number of a label's value: the sum of the weights of pods that match or have a term.

    `is_touched` is whether any of these pods is on a node that has the label.
    """

    def __init__(self, everywhere: NodeView, key: str) -> None:
        self._numbers, self.column = everywhere.label(key)
        self._is_everywhere = all_have_label(everywhere, key)
        self.weights = np.zeros(self.column.values.size + 1, np.int64)
        self.is_touched = False

    def add_pods(self, counts: PodCounts, query: PodQuery, weight: int) -> None:
        """Add the pods that match a term."""
        pods = counts.by_value(query, self._numbers, len(self.weights) - 1)
        if np.count_nonzero(pods):  # 0 for nodes without the label
            self.is_touched = True
            self.weights += weight * pods

    def add_term(self, terms: RunningTerms, term: TermCounts, weight: int) -> None:
        """Add the running pods that have a term."""
        terms.add_by_value(term, self.weights, self._numbers, weight)
        self.weights[ABSENT] = 0
        self.is_touched = self.is_touched or self._is_everywhere or term.is_on_any(self._numbers)

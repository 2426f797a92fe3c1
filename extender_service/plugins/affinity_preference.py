"""What pods prefer to be near of, added up by topology (interpodaffinity/scoring.go)."""

import numpy as np

from extender_service.cluster.cluster import Cluster
from extender_service.cluster.pod_counts import PodQuery
from extender_service.cluster.view import NodeView
from extender_service.kube.objects import Pod
from extender_service.kube.pod_affinity import PodAffinityTerms
from extender_service.plugins.affinity_terms import selected_pods
from extender_service.plugins.topology import Amounts, is_present, sum_by_value


class AffinityPreference:
    """The weights of all terms that a pod and the running pods have about each other.

    Terms of running pods that they require count with `required_weight`, unless that is 0.
    """

    def __init__(
        self, cluster: Cluster, pod: Pod, terms: PodAffinityTerms, everywhere: NodeView, required_weight: int
    ) -> None:
        size = len(everywhere)
        by_key: dict[str, _Topology] = {}
        for weighted in (*terms.preferred, *terms.preferred_anti):
            pods = PodQuery((selected_pods(weighted.term, cluster.workloads),))
            topology = by_key.setdefault(weighted.term.topology_key, _Topology(size))
            topology.add(cluster.pod_counts.by_row(pods, size), weighted.weight)
        namespace = pod.metadata.namespace
        namespace_labels = cluster.workloads.namespace_labels(namespace)
        for running in cluster.pods.affinity.about(namespace, pod.metadata.labels, namespace_labels):
            weight = required_weight if running.key.weight is None else running.key.weight
            if weight or running.key.weight is not None:
                topology = by_key.setdefault(running.key.term.topology_key, _Topology(size))
                running.add_to(topology.pods)
                running.add_to(topology.weights, weight)
        # By topology key: the weight by the number of the label's value, and 0 for nodes without it.
        self._weights: dict[str, Amounts] = {}
        for key, topology in by_key.items():
            numbers, column = everywhere.label(key)
            if topology.pods[is_present(numbers)].any():
                self._weights[key] = sum_by_value(numbers, topology.weights, column.values.size)

    @property
    def is_empty(self) -> bool:
        """Whether no term is about any node."""
        return not self._weights

    def scores(self, nodes: NodeView) -> Amounts:
        """Add up the weights for each node."""
        total = np.zeros(len(nodes), np.int64)
        for key, weights in self._weights.items():
            total += weights[nodes.label(key)[0]]
        return total


class _Topology:
    """By row: pods that a term is about or that have one, and the sum of their weights."""

    def __init__(self, size: int) -> None:
        self.pods = np.zeros(size, np.int64)
        self.weights = np.zeros(size, np.int64)

    def add(self, pods: Amounts, weight: int) -> None:
        """Add pods that each weigh the same."""
        self.pods += pods
        self.weights += weight * pods

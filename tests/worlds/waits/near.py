"""What pods require of the pods near them."""

from collections.abc import Iterator, Sequence

from extender_service.cluster.selection.label_sets import label_set
from extender_service.kube.parsing.pod_affinity import AffinityTerm, pod_affinity_terms
from extender_service.kube.types.core import Pod
from extender_service.plugins.pod_topology_spread.constraints import DO_NOT_SCHEDULE, SpreadConstraint, own_constraints
from tests.worlds.actors.fitting import is_finished
from tests.worlds.api_server.etcd import Etcd, Item
from tests.worlds.api_server.kinds import NAMESPACES, PODS
from tests.worlds.waits.history import decoded


def required_spread(pod: Pod) -> Sequence[SpreadConstraint]:
    """Return the topology spread constraints of a pod that keep it off nodes."""
    labelled = label_set(pod.metadata.namespace, pod.metadata.labels)
    return own_constraints(labelled, pod.spec.topology_spread_constraints, DO_NOT_SCHEDULE).each


def required_affinity(pod: Pod) -> Sequence[AffinityTerm]:
    """Return the terms of the pods that a pod is to be near to."""
    return pod_affinity_terms(pod.metadata.namespace, pod.spec.affinity).required


def required_anti_affinity(pod: Pod) -> Sequence[AffinityTerm]:
    """Return the terms of the pods that a pod is to be apart from."""
    return pod_affinity_terms(pod.metadata.namespace, pod.spec.affinity).required_anti


def pods_on_nodes(etcd: Etcd) -> Iterator[Item]:
    """Yield the pods that are on a node, and have not ended."""
    for item in etcd.all(PODS):
        if item.value["spec"].get("nodeName") and not is_finished(item.value):
            yield item


def anti_affinity_on_nodes(etcd: Etcd) -> Iterator[AffinityTerm]:
    """Yield the terms of all pods that are to be apart from others, and are on a node."""
    for item in pods_on_nodes(etcd):
        if "podAntiAffinity" in item.value["spec"].get("affinity", {}):
            yield from required_anti_affinity(decoded(item))


def selects(etcd: Etcd, term: AffinityTerm, pod: Pod) -> bool:
    """Return whether a term selects a pod, by the labels that its namespace has now."""
    metadata = pod.metadata
    namespace = etcd.get(NAMESPACES, metadata.namespace)
    labels = {} if namespace is None else namespace.value["metadata"].get("labels", {})
    return term.matches(metadata.namespace, metadata.labels, labels)

"""Affinity terms of a pod that is to be placed."""

from extender_service.cluster.owners.owners import Workloads
from extender_service.cluster.selection.label_sets import PodSelector
from extender_service.kube.parsing.pod_affinity import AffinityTerm
from extender_service.kube.parsing.selectors import EVERYTHING


def selected_pods(term: AffinityTerm, workloads: Workloads) -> PodSelector:
    """Return the selector of the pods that a term matches, in the namespaces that exist now
    (mergeAffinityTermNamespacesIfNotEmpty)."""
    if term.namespace_selector == EVERYTHING:
        return PodSelector(None, term.selector)
    return PodSelector(term.namespaces | workloads.namespaces_selected_by(term.namespace_selector), term.selector)

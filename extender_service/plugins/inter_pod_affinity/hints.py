"""Whether a change helps a pod that inter-pod affinity keeps off nodes (isSchedulableAfter… in the reference)."""

from collections.abc import Sequence

from extender_service.config.rules import Rules
from extender_service.framework.plugin_errors import PluginError
from extender_service.kube.parsing.label_syntax import Wording
from extender_service.kube.parsing.pod_affinity import AffinityTerm, PodAffinityTerms, pod_affinity_terms
from extender_service.kube.types.core import Node, Pod, PodAffinity
from extender_service.plugins.shared.changed_pods import counts_near
from extender_service.plugins.shared.event_objects import old_and_new, only_new


def affinity_helped_by_pod(pod: Pod, old: object, new: object, rules: Rules) -> bool:
    """Return whether a pod on a node matches the affinity now, or does not match the anti-affinity any more; from v1.36
    on also, whether one is gone whose own anti-affinity matches this pod.

    Raises PluginError, in the words of a release, where a term is malformed.
    """
    before, after = old_and_new(Pod, old, new)
    if any(other is not None and not counts_near(other, rules) for other in (before, after)):
        return False
    near, apart = _near(pod, rules.wording), _apart(pod, rules.wording)
    matches = _matches_any if rules.any_anti_affinity_term_wakes else _matches_all
    came = _matches_all(near, after) and not _matches_all(near, before)
    went = matches(apart, before) and not matches(apart, after)
    if came or went or after is not None or before is None or not rules.anti_affinity_of_others_wakes:
        return came or went
    return matches(_apart(before, rules.wording), pod)


def affinity_helped_by_node(pod: Pod, old: object, new: object, wording: Wording) -> bool:
    """Return whether a node has the topology key of a term. Raises PluginError, too."""
    labels = only_new(Node, old, new).metadata.labels
    return any(term.topology_key in labels for terms in (_near, _apart) for term in terms(pod, wording))


def affinity_changed_by_node(pod: Pod, old: object, new: object, wording: Wording) -> bool:
    """Return whether a node has come into a topology of the affinity, or left one of the anti-affinity. Raises
    PluginError, too."""
    before, after = old_and_new(Node, old, new)[0], only_new(Node, old, new).metadata.labels
    if before is None:
        return any(term.topology_key in after for term in _near(pod, wording)) or bool(_apart(pod, wording))
    was = before.metadata.labels
    near = (term.topology_key for term in _near(pod, wording))
    if any(key in after and was.get(key) != after[key] for key in near):
        return True
    apart = (term.topology_key for term in _apart(pod, wording))
    return any(key in was and was[key] != after.get(key) for key in apart)


def _near(pod: Pod, wording: Wording) -> Sequence[AffinityTerm]:
    affinity = pod.spec.affinity
    terms = pod_affinity_terms(pod.metadata.namespace, affinity)
    _require_well_formed(None if affinity is None else affinity.pod_affinity, terms.required, terms, wording)
    return terms.required


def _apart(pod: Pod, wording: Wording) -> Sequence[AffinityTerm]:
    affinity = pod.spec.affinity
    terms = pod_affinity_terms(pod.metadata.namespace, affinity)
    _require_well_formed(None if affinity is None else affinity.pod_anti_affinity, terms.required_anti, terms, wording)
    return terms.required_anti


def _require_well_formed(
    given: PodAffinity | None, required: Sequence[AffinityTerm], terms: PodAffinityTerms, wording: Wording
) -> None:
    # A malformed term empties its list. Here, those of other lists do not matter.
    if given is not None and given.required and not required:
        raise PluginError(terms.error_text(wording))


def _matches_any(terms: Sequence[AffinityTerm], pod: Pod | None) -> bool:
    return pod is not None and any(term.matches(pod.metadata.namespace, pod.metadata.labels, {}) for term in terms)


def _matches_all(terms: Sequence[AffinityTerm], pod: Pod | None) -> bool:
    """Whether there are terms and all of them select the pod. As in the reference, the labels of its namespace count
    as none."""
    if pod is None or not terms:
        return False
    return all(term.matches(pod.metadata.namespace, pod.metadata.labels, {}) for term in terms)

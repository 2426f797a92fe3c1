"""Merges matchLabelKeys and mismatchLabelKeys of pod affinity into the terms' selectors.

The API server does this when a pod is created (pkg/registry/core/pod/strategy.go). For example, a pod with the label
`version: v2` and `matchLabelKeys: [version]` gets the requirement `version In (v2)`.
"""

from collections.abc import Mapping

from msgspec import Raw, field, structs

from extender_service.kube.parsing.decoder import Decoder
from extender_service.kube.types.core import (
    Affinity,
    Object,
    PodAffinity,
    PodAffinityTerm,
    SelectorRequirement,
    WeightedPodAffinityTerm,
)


class _Keys(Object):
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class _WeightedKeys(Object):
    pod_affinity_term: _Keys = _Keys()


class _Rules(Object):
    required: tuple[_Keys, ...] = field(name="requiredDuringSchedulingIgnoredDuringExecution", default=())
    preferred: tuple[_WeightedKeys, ...] = field(name="preferredDuringSchedulingIgnoredDuringExecution", default=())


class _Affinity(Object):
    pod_affinity: _Rules | None = None
    pod_anti_affinity: _Rules | None = None


class _Spec(Object):
    affinity: _Affinity | None = None


class _Pod(Object):
    spec: _Spec = _Spec()


_decoder = Decoder(_Pod)


def merge_label_keys(affinity: Affinity, labels: Mapping[str, str], source: Raw) -> Affinity:
    """Merge the keys into the selectors. `labels` are the pod's labels, `source` is the pod's JSON."""
    keys = _decoder.decode(source).spec.affinity or _Affinity()
    return structs.replace(
        affinity,
        pod_affinity=_merged_rules(affinity.pod_affinity, keys.pod_affinity, labels),
        pod_anti_affinity=_merged_rules(affinity.pod_anti_affinity, keys.pod_anti_affinity, labels),
    )


def _merged_rules(rules: PodAffinity | None, keys: _Rules | None, labels: Mapping[str, str]) -> PodAffinity | None:
    if rules is None or keys is None:
        return rules
    return PodAffinity(
        tuple(_merged(term, of_term, labels) for term, of_term in zip(rules.required, keys.required, strict=True)),
        tuple(
            WeightedPodAffinityTerm(
                weighted.weight, _merged(weighted.pod_affinity_term, of_term.pod_affinity_term, labels)
            )
            for weighted, of_term in zip(rules.preferred, keys.preferred, strict=True)
        ),
    )


def _merged(term: PodAffinityTerm, keys: _Keys, labels: Mapping[str, str]) -> PodAffinityTerm:
    added = tuple(
        SelectorRequirement(key, operator, (labels[key],))
        for operator, named in (("In", keys.match_label_keys), ("NotIn", keys.mismatch_label_keys))
        for key in named
        if key in labels
    )
    # A term without a selector matches no pod. A selector with only the merged keys would match some.
    if term.label_selector is None or not added:
        return term
    expressions = term.label_selector.match_expressions + added
    return structs.replace(term, label_selector=structs.replace(term.label_selector, match_expressions=expressions))

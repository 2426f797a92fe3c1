"""Terms of pod affinity and anti-affinity, parsed as kube-scheduler parses them (PodInfo in framework/types.go)."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from extender_service.caches import cached
from extender_service.kube.parsing.field_errors import FieldError, aggregate, described
from extender_service.kube.parsing.label_syntax import Wording
from extender_service.kube.parsing.selectors import Selector, SelectorError, parse_label_selector
from extender_service.kube.types.core import Affinity, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm
from extender_service.kube.types.watched_pods import WatchedAffinity

T = TypeVar("T")
R = TypeVar("R")


class AffinityTerm(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A parsed v1.PodAffinityTerm. `namespaces` are explicit; `namespace_selector` selects more of them by labels."""

    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector
    topology_key: str

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Return whether the term selects a pod with these labels, in a namespace with `namespace_labels`."""
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)


class WeightedAffinityTerm(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A preferred term and its weight, which is negative for anti-affinity."""

    term: AffinityTerm
    weight: int


class PodAffinityTerms(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """All terms of a pod. If a term is malformed, its list is empty, and `errors` has its name with what is wrong."""

    required: tuple[AffinityTerm, ...] = ()
    required_anti: tuple[AffinityTerm, ...] = ()
    preferred: tuple[WeightedAffinityTerm, ...] = ()
    preferred_anti: tuple[WeightedAffinityTerm, ...] = ()
    errors: tuple[tuple[str, tuple[FieldError, ...]], ...] = ()

    def error_text(self, wording: Wording) -> str:
        """Describe what is malformed, in the words of a release."""
        return aggregate(f"{name}: {described(errors, wording)}" for name, errors in self.errors)


NO_TERMS = PodAffinityTerms()
_NONE = PodAffinity()
_decoder = msgspec.msgpack.Decoder(tuple[str, PodAffinity | None, PodAffinity | None])


def pod_affinity_terms(namespace: str, affinity: Affinity | WatchedAffinity | None) -> PodAffinityTerms:
    """Parse the terms of a pod in a namespace. Puts the errors of malformed terms in `errors`, and does not raise."""
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    # Pods of one template share their terms, and bytes can be looked up where the objects cannot.
    return _parsed(msgspec.msgpack.encode((namespace, affinity.pod_affinity, affinity.pod_anti_affinity)))


@cached("pod affinity terms", most_entries=1024, most_entry_bytes=20 << 10, most_size=1536)
def _parsed(encoded: bytes) -> PodAffinityTerms:
    namespace, near, apart = _decoder.decode(encoded)
    near, apart = near or _NONE, apart or _NONE
    errors: list[tuple[str, tuple[FieldError, ...]]] = []

    def required(term: PodAffinityTerm) -> AffinityTerm:
        return _term(namespace, term)

    def preferred(weighted: WeightedPodAffinityTerm) -> WeightedAffinityTerm:
        return WeightedAffinityTerm(_term(namespace, weighted.pod_affinity_term), weighted.weight)

    def preferred_anti(weighted: WeightedPodAffinityTerm) -> WeightedAffinityTerm:
        return WeightedAffinityTerm(_term(namespace, weighted.pod_affinity_term), -weighted.weight)

    return PodAffinityTerms(
        _all_or_none("requiredAffinityTerms", required, near.required, errors),
        _all_or_none("requiredAntiAffinityTerms", required, apart.required, errors),
        _all_or_none("preferredAffinityTerms", preferred, near.preferred, errors),
        _all_or_none("preferredAntiAffinityTerms", preferred_anti, apart.preferred, errors),
        tuple(errors),
    )


def _all_or_none(
    name: str, parse: Callable[[T], R], terms: Sequence[T], errors: list[tuple[str, tuple[FieldError, ...]]]
) -> tuple[R, ...]:
    try:
        return tuple(parse(term) for term in terms)
    except SelectorError as error:
        errors.append((name, tuple(error.errors)))
        return ()


def _term(namespace: str, term: PodAffinityTerm) -> AffinityTerm:
    is_own_namespace = not term.namespaces and term.namespace_selector is None
    return AffinityTerm(
        selector=parse_label_selector(term.label_selector),
        namespaces=frozenset((namespace,) if is_own_namespace else term.namespaces),
        namespace_selector=parse_label_selector(term.namespace_selector),
        topology_key=term.topology_key,
    )

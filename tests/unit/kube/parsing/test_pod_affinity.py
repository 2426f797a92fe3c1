import pytest

from extender_service.kube.parsing.label_syntax import V1_31
from extender_service.kube.parsing.pod_affinity import NO_TERMS, PodAffinityTerms, pod_affinity_terms
from extender_service.kube.types.core import (
    Affinity,
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    SelectorRequirement,
    WeightedPodAffinityTerm,
)

WEB = LabelSelector({"app": "web"})
BROKEN = PodAffinityTerm("zone", LabelSelector(match_expressions=(SelectorRequirement("app", "Near"),)))


def required(term: PodAffinityTerm) -> PodAffinityTerms:
    return pod_affinity_terms("shop", Affinity(pod_affinity=PodAffinity(required=(term,))))


def test_a_pod_without_pod_affinity_has_no_terms() -> None:
    assert pod_affinity_terms("shop", None) is NO_TERMS
    assert pod_affinity_terms("shop", Affinity()) is NO_TERMS
    assert pod_affinity_terms("shop", Affinity(pod_affinity=PodAffinity())) == NO_TERMS


@pytest.mark.parametrize(
    ("term", "matching"),
    [
        (PodAffinityTerm("zone", WEB), {"shop"}),
        (PodAffinityTerm("zone", WEB, namespaces=("bank", "farm")), {"bank", "farm"}),
        (PodAffinityTerm("zone", WEB, namespace_selector=LabelSelector({"team": "farm"})), {"farm"}),
        (PodAffinityTerm("zone", WEB, ("bank",), LabelSelector({"team": "farm"})), {"bank", "farm"}),
        (PodAffinityTerm("zone", WEB, namespace_selector=LabelSelector()), {"shop", "bank", "farm"}),
        (PodAffinityTerm("zone", None), set()),
    ],
)
def test_a_term_is_about_its_own_namespace_unless_it_names_or_selects_others(
    term: PodAffinityTerm, matching: set[str]
) -> None:
    parsed = required(term).required[0]
    found = {name for name in ("shop", "bank", "farm") if parsed.matches(name, {"app": "web"}, {"team": name})}
    assert found == matching
    assert not parsed.matches("shop", {"app": "other"}, {"team": "shop"})


def test_terms_that_are_written_alike_are_equal() -> None:
    reordered = LabelSelector({"tier": "front", "app": "web"})
    ordered = LabelSelector({"app": "web", "tier": "front"})
    assert required(PodAffinityTerm("zone", reordered)) == required(PodAffinityTerm("zone", ordered))
    assert required(PodAffinityTerm("zone", ordered)) != required(PodAffinityTerm("host", ordered))


def test_anti_affinity_counts_as_a_negative_weight() -> None:
    weighted = WeightedPodAffinityTerm(30, PodAffinityTerm("zone", WEB))
    terms = pod_affinity_terms("shop", Affinity(None, PodAffinity((), (weighted,)), PodAffinity((), (weighted,))))
    assert [item.weight for item in (*terms.preferred, *terms.preferred_anti)] == [30, -30]


def test_a_malformed_term_empties_its_list_and_leaves_the_others() -> None:
    good = PodAffinityTerm("zone", WEB)
    terms = pod_affinity_terms(
        "shop",
        Affinity(
            pod_affinity=PodAffinity(required=(good, BROKEN)),
            pod_anti_affinity=PodAffinity(required=(good,), preferred=(WeightedPodAffinityTerm(1, BROKEN),)),
        ),
    )
    assert (len(terms.required), len(terms.required_anti), len(terms.preferred_anti)) == (0, 1, 0)
    assert terms.error_text(V1_31) == (
        '[requiredAffinityTerms: "Near" is not a valid label selector operator, '
        'preferredAntiAffinityTerms: "Near" is not a valid label selector operator]'
    )

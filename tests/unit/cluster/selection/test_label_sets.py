from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender_service.cluster.selection.label_sets import LabelSet, LabelSets, PodSelector, label_set
from extender_service.kube.parsing.selectors import (
    EVERYTHING,
    NOTHING,
    Operator,
    Requirement,
    Selector,
    label_set_selector,
    parse_label_selector,
)
from extender_service.kube.types.core import LabelSelector, SelectorRequirement
from tests.counted.bytecodes import executed
from tests.support import selectors as random_selectors
from tests.support.memory import MIB, peak_bytes

pod_selectors = st.builds(PodSelector, random_selectors.namespace_sets, random_selectors.selectors)


def matching(sets: LabelSets, *selectors: PodSelector) -> set[int]:
    return set(sets.matching(selectors).nonzero()[0].tolist())


def test_equal_labels_are_kept_once_however_they_are_ordered() -> None:
    sets = LabelSets()
    first = sets.hold(LabelSet("shop", {"app": "web", "tier": "front"}))
    assert sets.hold(LabelSet("shop", {"tier": "front", "app": "web"})) == first
    assert sets.hold(LabelSet("bank", {"app": "web", "tier": "front"})) != first
    assert sets.number_of(LabelSet("shop", {"app": "web"})) == -1
    assert len(sets) == 2


@given(st.dictionaries(st.text(), st.text()), st.sampled_from(["web", "w" * 100, "w" * 5000]))
def test_the_label_set_of_pods_is_that_of_their_labels(labels: dict[str, str], value: str) -> None:
    labels["app"] = value
    assert label_set("shop", labels) == LabelSet("shop", labels)
    backwards = dict(reversed(labels.items()))
    assert (label_set("shop", backwards), hash(label_set("shop", backwards))) == (
        LabelSet("shop", labels),
        hash(label_set("shop", labels)),
    )


def test_pods_with_the_same_labels_share_one_label_set() -> None:
    assert label_set("shop", {"app": "web"}) is label_set("shop", {"app": "web"})
    assert label_set("shop", {"app": "web"}) != label_set("bank", {"app": "web"})


def test_a_selector_is_about_namespaces_and_labels() -> None:
    sets = LabelSets()
    web, db, other = (
        sets.hold(LabelSet("shop", {"app": "web"})),
        sets.hold(LabelSet("shop", {"app": "db"})),
        sets.hold(LabelSet("bank", {"app": "web"})),
    )
    only_web = label_set_selector({"app": "web"})
    assert matching(sets, PodSelector(None, only_web)) == {web, other}
    assert matching(sets, PodSelector(frozenset({"shop"}), only_web)) == {web}
    assert matching(sets, PodSelector(frozenset({"shop"}), EVERYTHING)) == {web, db}
    assert matching(sets, PodSelector(frozenset({"shop"}), EVERYTHING), PodSelector(None, only_web)) == {web}
    assert matching(sets, PodSelector(None, NOTHING)) == matching(sets, PodSelector(frozenset(), EVERYTHING)) == set()


@given(
    st.lists(
        st.one_of(
            st.tuples(random_selectors.namespaces, random_selectors.labels),
            st.integers(0, 20),
            st.lists(pod_selectors, max_size=2),
        ),
        max_size=40,
    )
)
def test_matches_are_those_of_each_set_on_its_own(
    steps: list[tuple[str, dict[str, str]] | int | list[PodSelector]],
) -> None:
    sets = LabelSets(limit=2)
    held: list[tuple[int, str, dict[str, str]]] = []
    for step in [*steps, [PodSelector(None, EVERYTHING)]]:
        if isinstance(step, tuple):
            held.append((sets.hold(LabelSet(*step)), *step))
        elif isinstance(step, list):
            expected = {
                number
                for number, namespace, labels in held
                if all(selector.matches(namespace, labels) for selector in step)
            }
            assert matching(sets, *step) == expected
        elif held:
            sets.release(held.pop(step % len(held))[0])


def test_nothing_is_left_of_sets_that_nobody_holds() -> None:
    sets = LabelSets()
    for _ in range(2):
        numbers = [sets.hold(LabelSet("shop", {"app": "web", "pod": f"pod-{number}"})) for number in range(100)]
        sets.matching([PodSelector(frozenset({"shop"}), label_set_selector({"app": "web", "pod": "pod-1"}))])
        for number in numbers:
            sets.release(number)
    assert len(sets) == 0
    assert sets.size == 100
    assert all(not index._by_value for index in sets._index.values())
    assert len(sets._namespaces) == 0


def test_all_of_many_requirements_hold_and_any_of_their_values() -> None:
    sets = LabelSets()
    numbers = {
        (app, tier, pod): sets.hold(LabelSet("shop", {"app": app, "tier": tier, "pod": pod}))
        for app in "ab"
        for tier in "xyz"
        for pod in "12"
    }
    of_all_three = label_set_selector({"app": "a", "tier": "x", "pod": "2"})
    assert matching(sets, PodSelector(None, of_all_three)) == {numbers["a", "x", "2"]}
    either = parse_label_selector(
        LabelSelector(
            {"app": "a"},
            (SelectorRequirement("tier", "In", ("x", "z")), SelectorRequirement("pod", "NotIn", ("2", "3"))),
        )
    )
    assert matching(sets, PodSelector(None, either)) == {numbers["a", "x", "1"], numbers["a", "z", "1"]}
    neither = parse_label_selector(LabelSelector({}, (SelectorRequirement("tier", "NotIn", ("x", "z")),)))
    assert matching(sets, PodSelector(None, neither)) == {
        number for (_, tier, _), number in numbers.items() if tier == "y"
    }


def test_only_so_many_labels_are_indexed() -> None:
    sets = LabelSets(limit=2)
    sets.hold(LabelSet("shop", {"app": "web", "tier": "front", "pod": "1"}))
    for key in ("app", "tier", "pod", "app"):
        sets.matching([PodSelector(None, label_set_selector({key: "web"}))])
    assert [key for key, _ in sets._index.items()] == ["pod", "app"]


def test_a_label_that_no_pod_has_or_has_any_more_is_not_looked_for() -> None:
    sets = LabelSets()
    number = sets.hold(LabelSet("shop", {"app": "web"}))
    web, no_tier = (PodSelector(None, label_set_selector({"app": "web"})), PodSelector(None, _lacks("tier")))
    assert matching(sets, web) == matching(sets, no_tier) == {number}
    assert matching(sets, PodSelector(None, label_set_selector({"tier": "front"}))) == set()
    sets.release(number)
    other = sets.hold(LabelSet("shop", {"tier": "front"}))
    assert sets.indexed_count == 1
    assert matching(sets, web) == matching(sets, no_tier) == set()
    assert matching(sets, PodSelector(None, _lacks("app"))) == {other}
    assert sets.indexed_count == 2


@given(st.lists(random_selectors.labels, max_size=6), st.lists(pod_selectors, max_size=5))
def test_many_selectors_together_select_what_each_of_them_does(
    labels: list[dict[str, str]], selectors: list[PodSelector]
) -> None:
    """Also where they name the same labels."""
    sets = LabelSets(limit=2)
    label_sets = {LabelSet("shop", each): sets.hold(LabelSet("shop", each)) for each in labels}
    assert matching(sets, *selectors) == {
        number
        for each, number in label_sets.items()
        if all(selector.matches(each.namespace, each.labels) for selector in selectors)
    }


def _lacks(key: str) -> Selector:
    return parse_label_selector(LabelSelector({}, (SelectorRequirement(key, "DoesNotExist"),)))


def _selecting(sets: LabelSets, requirements: Sequence[SelectorRequirement]) -> int:
    """Count the selection by so many requirements."""
    selector = PodSelector(
        None, Selector.of([Requirement(r.key, Operator(r.operator), r.values) for r in requirements])
    )
    return executed(lambda: sets.matching([selector]))


@pytest.mark.parametrize("operator", ["In", "NotIn"])
def test_labels_that_no_pod_has_take_no_look_at_the_pods(operator: str) -> None:
    def selecting(pods: int) -> int:
        sets = LabelSets()
        for number in range(pods):
            sets.hold(LabelSet("shop", {"app": f"app-{number}"}))
        return _selecting(sets, [SelectorRequirement(f"key-{number}", operator, ("a",)) for number in range(1_000)])

    assert selecting(500) == selecting(100)


def test_labels_that_few_pods_have_take_one_look_at_the_pods() -> None:
    def selecting(keys: int) -> int:
        sets = LabelSets()
        for number in range(1_000):
            sets.hold(LabelSet("shop", {"app": f"app-{number}"}))
        sets.hold(LabelSet("shop", {f"key-{number}": "a" for number in range(keys)}))
        return _selecting(sets, [SelectorRequirement(f"key-{number}", "NotIn", ("a",)) for number in range(keys)])

    assert selecting(1_000) < 3 * selecting(500)
    assert selecting(1_000) < 1_000 * 1_000


def test_values_that_many_pods_have_are_looked_up_once_however_often_they_are_named() -> None:
    sets = LabelSets()
    for number in range(1_000):
        sets.hold(LabelSet("shop", {"app": "web" if number % 2 else "db", "pod": str(number)}))
    often = [SelectorRequirement("app", "In", ("db", "web", f"app-{number}")) for number in range(1_000)]
    selectors = [PodSelector(None, parse_label_selector(LabelSelector({}, (each,)))) for each in often]
    assert peak_bytes(lambda: sets.matching(selectors)) < 2 * MIB


def test_there_is_room_for_as_many_sets_as_there_are_and_not_for_many_more() -> None:
    sets = LabelSets()
    for number in range(300):
        assert sets.hold(LabelSet(f"namespace-{number % 7}", {"pod": str(number)})) == number
    assert len(sets._namespace) == 512
    found = matching(sets, PodSelector(frozenset({"namespace-6"}), EVERYTHING))
    assert found == set(range(6, 300, 7))

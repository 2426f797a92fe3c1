from hypothesis import given
from hypothesis import strategies as st

from extender_service.cluster.selection.label_sets import LabelSet, LabelSets, PodSelector, label_set
from extender_service.kube.parsing.selectors import EVERYTHING, NOTHING, label_set_selector, parse_label_selector
from extender_service.kube.types.core import LabelSelector, SelectorRequirement
from tests.support import selectors as random_selectors

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
    sets.hold(LabelSet("shop", {"app": "web"}))
    for key in ("app", "tier", "pod", "app"):
        sets.matching([PodSelector(None, label_set_selector({key: "web"}))])
    assert [key for key, _ in sets._index.items()] == ["pod", "app"]


def test_there_is_room_for_as_many_sets_as_there_are_and_not_for_many_more() -> None:
    sets = LabelSets()
    for number in range(300):
        assert sets.hold(LabelSet(f"namespace-{number % 7}", {"pod": str(number)})) == number
    assert len(sets._namespace) == 512
    found = matching(sets, PodSelector(frozenset({"namespace-6"}), EVERYTHING))
    assert found == set(range(6, 300, 7))

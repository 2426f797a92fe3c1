from hypothesis import given
from hypothesis import strategies as st

from extender_service.cluster.selection.label_sets import PodSelector
from extender_service.cluster.selection.selector_index import SelectorIndex
from extender_service.kube.parsing.selectors import EVERYTHING, Operator, Requirement, Selector, label_set_selector
from tests.support import selectors as random_selectors

PodSelectors = st.builds(PodSelector, random_selectors.namespace_sets, random_selectors.selectors)


@given(
    st.lists(PodSelectors, max_size=12),
    st.sets(st.integers(0, 11)),
    random_selectors.namespaces,
    random_selectors.labels,
)
def test_no_selector_that_matches_a_pod_is_missed_and_none_comes_twice(
    items: list[PodSelector], removed: set[int], namespace: str, labels: dict[str, str]
) -> None:
    index: SelectorIndex[int] = SelectorIndex()
    for number, item in enumerate(items):
        index.add(number, item.namespaces, item.selector)
    for number in removed:
        if number < len(items):
            index.remove(number)
    left = {number: item for number, item in enumerate(items) if number not in removed}
    candidates = list(index.candidates(namespace, labels))
    assert len(index) == len(left)
    assert len(candidates) == len(set(candidates))
    assert set(candidates) <= set(left)
    assert {number for number, item in left.items() if item.matches(namespace, labels)} <= set(candidates)


def test_selectors_of_other_pods_are_not_looked_at() -> None:
    index: SelectorIndex[int] = SelectorIndex()
    for number in range(1000):
        index.add(number, ("shop",), label_set_selector({"part-of": "shop", "pod": f"pod-{number}"}))
    assert len(list(index.candidates("shop", {"part-of": "shop", "pod": "pod-7"}))) < 5


def test_an_index_without_items_holds_nothing() -> None:
    index: SelectorIndex[int] = SelectorIndex()
    for namespaces in (None, ("shop",)):
        for labels in ({}, {"app": "web"}):
            index.add(1, namespaces, label_set_selector(labels))
            index.remove(1)
    assert not any((index._by_pair, index._by_key, index._anywhere, index._filed))


def test_a_selector_that_asks_for_a_label_is_not_looked_at_for_pods_without_it() -> None:
    index: SelectorIndex[str] = SelectorIndex()
    index.add("labelled", None, Selector((Requirement("app", Operator.EXISTS),)))
    index.add("web", None, Selector((Requirement("app", Operator.IN, ("web",)),)))
    index.add("shop", {"shop"}, EVERYTHING)
    assert list(index.candidates("bank", {"tier": "x"})) == []
    assert list(index.candidates("bank", {"app": "db"})) == ["labelled"]
    assert sorted(index.candidates("shop", {"app": "web"})) == ["labelled", "shop", "web"]


def test_a_selector_is_filed_where_there_are_the_fewest() -> None:
    index: SelectorIndex[int] = SelectorIndex()
    for number in range(10):
        index.add(number, {"shop"}, Selector((Requirement("number", Operator.IN, (str(number),)),)))
    assert list(index.candidates("shop", {"number": "7"})) == [7]


def test_a_selector_that_goes_leaves_the_others_that_ask_for_the_same_label() -> None:
    index: SelectorIndex[str] = SelectorIndex()
    for item in ("stays", "goes"):
        index.add(item, None, Selector((Requirement("app", Operator.EXISTS),)))
    index.remove("goes")
    assert list(index.candidates("shop", {"app": "web"})) == ["stays"]
    index.remove("stays")
    assert not index._by_key

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from extender_service.cluster.view.node_view import NodeView
from extender_service.cluster.volumes.free_volumes import Reach
from extender_service.kube.parsing.selectors import Selector, parse_label_selector, parse_node_selector
from extender_service.kube.types.core import LabelSelector, NodeSelector, NodeSelectorTerm, SelectorRequirement
from extender_service.plugins.volume_binding.reach import NEVER, any_selects, can_reach, first_selecting, lowest_ranks
from tests.support.clusters.volume_worlds import storage_cluster
from tests.support.objects import make_node

requirements = st.builds(
    SelectorRequirement,
    st.sampled_from(["zone", "disk"]),
    st.sampled_from(["In", "NotIn"]),
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=2).map(tuple),
)
fields = st.builds(
    SelectorRequirement, st.just("metadata.name"), st.just("In"), st.sampled_from([("n0",), ("nobody",)])
)
terms = st.builds(
    NodeSelectorTerm, st.lists(requirements, max_size=2).map(tuple), st.lists(fields, max_size=1).map(tuple)
)
reaches: st.SearchStrategy[Reach] = st.none() | st.lists(terms, max_size=2).map(
    lambda some: parse_node_selector(NodeSelector(tuple(some)))
)
labels = st.dictionaries(st.sampled_from(["zone", "disk"]), st.sampled_from(["a", "b", "c", "d"]))
nodes_labels = st.lists(labels, min_size=1, max_size=5)


def view_of(labels_of: list[dict[str, str]]) -> NodeView:
    return storage_cluster([make_node(f"n{number}", labels=of) for number, of in enumerate(labels_of)]).view(None)


def reached(reach: Reach, of: dict[str, str]) -> bool:
    """Fields hold: the check does not know the node's name."""
    return reach is None or any(term.labels.matches(of) for term in reach.terms)


@given(labels_of=nodes_labels, reach=reaches)
def test_a_node_reaches_a_volume_by_its_labels(labels_of: list[dict[str, str]], reach: Reach) -> None:
    assert can_reach(view_of(labels_of), reach).tolist() == [reached(reach, of) for of in labels_of]


@given(labels_of=nodes_labels, selectors=st.lists(requirements.map(lambda one: (one,)) | st.lists(requirements)))
def test_any_of_many_selectors_may_select(
    labels_of: list[dict[str, str]], selectors: list[tuple[SelectorRequirement, ...]]
) -> None:
    parsed = [parse_label_selector(LabelSelector(match_expressions=tuple(some))) for some in selectors]
    expected = [any(selector.matches(of) for selector in parsed) for of in labels_of]
    assert any_selects(view_of(labels_of), parsed).tolist() == expected


def test_nothing_is_selected_by_none() -> None:
    assert any_selects(view_of([{}]), []).tolist() == [False]
    assert any_selects(view_of([{}]), [Selector(nothing=True)]).tolist() == [False]


@settings(deadline=None)
@given(labels_of=nodes_labels, volumes=st.lists(reaches, max_size=8), depth=st.integers(1, 3))
def test_the_lowest_ranks_are_those_of_the_volumes_within_reach(
    labels_of: list[dict[str, str]], volumes: list[Reach], depth: int
) -> None:
    found = lowest_ranks(view_of(labels_of), volumes, depth)
    for of, lowest in zip(labels_of, found.tolist(), strict=True):
        within = [rank for rank, reach in enumerate(volumes) if reached(reach, of)]
        assert lowest == [*within, *[int(NEVER)] * depth][:depth]


def test_without_volumes_there_are_no_ranks() -> None:
    assert np.array_equal(lowest_ranks(view_of([{}]), [], 2), [[NEVER, NEVER]])


@settings(max_examples=50)
@given(labels_of=nodes_labels, some=st.lists(st.lists(requirements, max_size=2).map(tuple), max_size=4))
def test_the_first_selector_of_several_that_match_a_node_is_found(
    labels_of: list[dict[str, str]], some: list[tuple[SelectorRequirement, ...]]
) -> None:
    selectors = [parse_label_selector(LabelSelector(match_expressions=each)) for each in some]
    assert first_selecting(view_of(labels_of), selectors).tolist() == [
        next((index for index, selector in enumerate(selectors) if selector.matches(of)), len(selectors))
        for of in labels_of
    ]

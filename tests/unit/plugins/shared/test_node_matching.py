import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from extender_service.kube.parsing.selectors import (
    NOTHING,
    Selector,
    SelectorError,
    parse_node_selector,
    parse_preferred_terms,
    required_node_affinity,
)
from extender_service.kube.types import core as objects
from extender_service.plugins.shared.node_matching import (
    matches_affinity,
    matches_node_selector,
    matches_selector,
    preference,
)
from tests.support.clusters.plugin_worlds import PluginWorld, assert_equal_on_nodes, existing, labels, worlds

expressions = st.builds(
    objects.SelectorRequirement,
    st.sampled_from(["zone", "disk", "gen", "unknown"]),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
    st.lists(st.sampled_from(["", "a", "b", "5", "-7", "6", "9223372036854775807", "unknown"]), max_size=2).map(tuple),
)
fields = st.builds(
    objects.SelectorRequirement,
    st.sampled_from(["metadata.name", "metadata.namespace"]),
    st.sampled_from(["In", "NotIn"]),
    st.sampled_from([("n0",), ("n1",), ("elsewhere",), ("",)]),
)
terms = st.builds(
    objects.NodeSelectorTerm,
    st.lists(expressions, max_size=2).map(tuple),
    st.lists(fields, max_size=1).map(tuple),
)
node_selectors = st.builds(objects.NodeSelector, st.lists(terms, max_size=3).map(tuple))


@settings(max_examples=50)
@given(world=worlds(node_labels=labels), selector=node_selectors)
def test_node_selectors_match_as_they_do_node_by_node(world: PluginWorld, selector: objects.NodeSelector) -> None:
    parsed = parse_node_selector(selector)
    expected = [parsed.matches(node.labels, node.name) for node in existing(world)]
    assert_equal_on_nodes(world, matches_node_selector(world.view, parsed).tolist(), expected)


@settings(max_examples=50)
@given(
    world=worlds(node_labels=labels),
    node_selector=st.none() | labels,
    affinity=st.none() | node_selectors,
)
def test_what_a_pod_requires_matches_as_it_does_node_by_node(
    world: PluginWorld, node_selector: dict[str, str] | None, affinity: objects.NodeSelector | None
) -> None:
    spec = objects.PodSpec(
        node_selector=node_selector,
        affinity=objects.Affinity(node_affinity=objects.NodeAffinity(required=affinity)),
    )
    required = required_node_affinity(spec)
    expected = [required.matches(node.labels, node.name) for node in existing(world)]
    assert_equal_on_nodes(world, matches_affinity(world.view, required).tolist(), expected)


@settings(max_examples=50)
@given(world=worlds(node_labels=labels), weighted=st.lists(st.tuples(st.integers(0, 100), terms), max_size=3))
def test_preferences_add_up_as_they_do_node_by_node(
    world: PluginWorld, weighted: list[tuple[int, objects.NodeSelectorTerm]]
) -> None:
    try:
        preferred = parse_preferred_terms(tuple(itertools.starmap(objects.PreferredSchedulingTerm, weighted)))
    except SelectorError:
        return
    expected = [preferred.score(node.labels, node.name) for node in existing(world)]
    assert_equal_on_nodes(world, preference(world.view, preferred).tolist(), expected)


@settings(max_examples=50)
@given(world=worlds(node_labels=labels))
def test_no_requirement_selects_all_and_nothing_selects_none(world: PluginWorld) -> None:
    assert matches_selector(world.view, Selector()).all()
    assert not matches_selector(world.view, NOTHING).any()


@settings(max_examples=50)
@given(world=worlds(node_labels=labels))
def test_a_label_that_no_node_has_is_looked_for_in_vain(world: PluginWorld) -> None:
    required = required_node_affinity(objects.PodSpec(node_selector={"unknown": "a"}))
    assert not matches_affinity(world.view, required).any()

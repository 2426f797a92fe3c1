from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.config.loading import parse_config
from extender_service.config.rules import rules_of
from extender_service.framework.cluster_event import NODE, ActionType, ClusterEvent, QueueingHint
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.status import SKIP, Status, unresolvable
from extender_service.kube.parsing.selectors import parse_node_selector, required_node_affinity
from extender_service.kube.types import core as objects
from extender_service.kube.types.core import (
    Affinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    PreferredSchedulingTerm,
    SelectorRequirement,
)
from extender_service.plugins.in_tree import ARGS_TYPES
from extender_service.plugins.node_affinity import NodeAffinity, NodeAffinityArgs
from tests.support.clusters.plugin_worlds import (
    PluginWorld,
    assert_equal_on_nodes,
    empty_world,
    existing,
    labels,
    rejected,
    worlds,
)
from tests.support.objects import make_node

NO_MATCH = unresolvable("node(s) didn't match Pod's node affinity/selector")
NOT_ENFORCED = unresolvable("node(s) didn't match scheduler-enforced node affinity")


def labelled(key: str, *values: str, operator: str = "In") -> NodeSelectorTerm:
    return NodeSelectorTerm((SelectorRequirement(key, operator, values),))


def named(*names: str, operator: str = "In") -> SelectorRequirement:
    return SelectorRequirement("metadata.name", operator, names)


def pod_with(
    required: NodeSelector | None = None,
    preferred: tuple[PreferredSchedulingTerm, ...] = (),
    node_selector: dict[str, str] | None = None,
) -> Pod:
    affinity = Affinity(node_affinity=objects.NodeAffinity(required, preferred))
    return Pod(spec=PodSpec(affinity=affinity, node_selector=node_selector))


def plugin(
    world: PluginWorld, required: NodeSelector | None = None, preferred: tuple[PreferredSchedulingTerm, ...] = ()
) -> NodeAffinity:
    added = objects.NodeAffinity(required, preferred) if required or preferred else None
    return NodeAffinity(NodeAffinityArgs(added_affinity=added), world.handle)


terms = st.sampled_from(
    [
        labelled("zone", "a"),
        labelled("zone", "a", "b"),
        labelled("disk", operator="Exists"),
        labelled("gen", "4", operator="Gt"),
        labelled("gen", "x", operator="Gt"),  # malformed: matches nothing
        NodeSelectorTerm(match_fields=(named("n1"),)),
        NodeSelectorTerm(),
    ]
)
selectors = st.lists(terms, max_size=3).map(lambda chosen: NodeSelector(tuple(chosen)))
preferences = st.lists(
    st.builds(
        PreferredSchedulingTerm,
        st.integers(1, 100),
        terms.filter(lambda term: term != labelled("gen", "x", operator="Gt")),
    ),
    max_size=3,
).map(tuple)


@settings(max_examples=50)
@given(
    world=worlds(node_labels=labels),
    required=st.none() | selectors,
    node_selector=st.none() | labels,
    enforced=st.none() | selectors,
    pre_filter=st.booleans(),
)
def test_nodes_are_rejected_by_what_is_enforced_and_then_by_what_the_pod_requires(
    world: PluginWorld,
    required: NodeSelector | None,
    node_selector: dict[str, str] | None,
    enforced: NodeSelector | None,
    pre_filter: bool,
) -> None:
    pod = pod_with(required, node_selector=node_selector)
    affinity, state = plugin(world, enforced), CycleState(pod)
    if pre_filter:
        affinity.pre_filter(state, pod)
    of_pod = required_node_affinity(pod.spec)
    of_configuration = None if enforced is None else parse_node_selector(enforced)
    expected: list[Status | None] = []
    for node in existing(world):
        if of_configuration is not None and not of_configuration.matches(node.labels, node.name):
            expected.append(NOT_ENFORCED)
        else:
            expected.append(None if of_pod.matches(node.labels, node.name) else NO_MATCH)
    assert_equal_on_nodes(world, rejected(affinity, state, pod, world), expected)


@settings(max_examples=50)
@given(world=worlds(node_labels=labels), preferred=preferences, added=preferences)
def test_scores_add_up_the_weights_of_the_terms_that_match(world: PluginWorld, preferred: Any, added: Any) -> None:
    pod = pod_with(preferred=preferred)
    affinity, state = plugin(world, preferred=added), CycleState(pod)
    assert affinity.pre_score(state, pod, world.view) == (None if preferred or added else SKIP)
    expected = [
        sum(
            each.weight
            for each in preferred + added
            if parse_node_selector(NodeSelector((each.preference,))).matches(node.labels, node.name)
        )
        for node in existing(world)
    ]
    scores = affinity.score(state, pod, world.view)
    assert_equal_on_nodes(world, scores.tolist(), expected)


def pre_filtered(pod: Pod, enforced: NodeSelector | None = None) -> Any:
    return plugin(empty_world(), enforced).pre_filter(CycleState(pod), pod)


def test_a_pod_that_requires_nothing_is_not_filtered() -> None:
    assert pre_filtered(Pod()) == SKIP
    assert pre_filtered(pod_with()) == SKIP
    assert pre_filtered(Pod(), NodeSelector((labelled("zone", "a"),))) is None
    assert pre_filtered(pod_with(node_selector={})) is None
    assert pre_filtered(pod_with(NodeSelector())) is None


@pytest.mark.parametrize(
    ("of_terms", "only"),
    [
        ([[named("a")]], {"a"}),
        ([[named("a")], [named("b"), named("b")]], {"a", "b"}),
        ([[named("a"), named("b")], [named("c")]], {"c"}),
        ([[named("a")], [named("b", operator="NotIn")]], None),
        ([[named("a")], []], None),
    ],
)
def test_where_every_term_names_nodes_only_those_come_into_question(
    of_terms: list[list[SelectorRequirement]], only: set[str] | None
) -> None:
    selector = NodeSelector(tuple(NodeSelectorTerm(match_fields=tuple(fields)) for fields in of_terms))
    assert pre_filtered(pod_with(selector)) == only


def test_terms_that_contradict_themselves_leave_no_node() -> None:
    selector = NodeSelector((NodeSelectorTerm(match_fields=(named("a"), named("b"))),))
    assert pre_filtered(pod_with(selector)) == unresolvable("pod affinity terms conflict")


def test_a_malformed_preference_ends_the_cycle() -> None:
    world = empty_world()
    pod = pod_with(preferred=(PreferredSchedulingTerm(1, labelled("gen", "x", operator="Gt")),))
    with pytest.raises(PluginError, match="the value must be an integer"):
        plugin(world).pre_score(CycleState(pod), pod, world.view)
    with pytest.raises(PluginError, match="the value must be an integer"):
        plugin(world).score(CycleState(pod), pod, world.view)


AFFINITY = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: In, values: [ssd]}]}]
        preferredDuringSchedulingIgnoredDuringExecution:
        - {weight: 3, preference: {matchFields: [{key: metadata.name, operator: NotIn, values: [a]}]}}
"""


def test_added_affinity_is_the_type_that_pods_have() -> None:
    [profile] = parse_config(AFFINITY, ARGS_TYPES).profiles
    preference = NodeSelectorTerm(match_fields=(named("a", operator="NotIn"),))
    expected = objects.NodeAffinity(
        required=NodeSelector((labelled("disk", "ssd"),)), preferred=(PreferredSchedulingTerm(3, preference),)
    )
    assert profile.args("NodeAffinity") == NodeAffinityArgs(added_affinity=expected)


def test_a_malformed_term_fails_the_hint_where_it_decides_what_was() -> None:
    cluster = Cluster(rules_of(36))
    plugin = NodeAffinity(NodeAffinityArgs(), Handle(cluster, ClusterFile(cluster, [])))
    terms = [
        objects.NodeSelectorTerm((objects.SelectorRequirement("disk", operator, ("ssd",)),))
        for operator in ("In", "Near")
    ]
    required = objects.NodeAffinity(required=objects.NodeSelector(tuple(terms)))
    pod = objects.Pod(spec=objects.PodSpec(affinity=objects.Affinity(node_affinity=required)))
    old, new = (make_node("a", labels={"disk": disk}) for disk in ("hdd", "ssd"))
    added = ClusterEvent(NODE, ActionType.ADD)
    assert plugin.queueing_hint(added, pod, None, new) is QueueingHint.QUEUE
    with pytest.raises(PluginError):
        plugin.queueing_hint(ClusterEvent(NODE, ActionType.UPDATE_NODE_LABEL), pod, old, new)

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.config.rules import rules_of
from extender_service.framework.cluster_event import POD, ActionType, ClusterEvent, QueueingHint
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.status import unresolvable
from extender_service.kube.types.core import Node, NodeSpec, ObjectMeta, Pod, PodSpec, Taint, Toleration
from extender_service.plugins.taint_toleration import TaintToleration
from tests.support.clusters.hypothetical_worlds import reasons
from tests.support.clusters.plugin_worlds import (
    PluginWorld,
    assert_equal_on_nodes,
    empty_world,
    existing,
    rejected,
    taints,
    tolerations,
    worlds,
)
from tests.support.objects import make_pod


def covered(taint: Taint, by: tuple[Toleration, ...]) -> bool:
    """ToleratesTaint of the API types, for one of them after another."""
    for toleration in by:
        if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
            continue
        if toleration.operator == "Exists" or (
            toleration.operator in ("", "Equal") and toleration.value == taint.value
        ):
            return True
    return False


@pytest.mark.parametrize("minor", [32, 36])
def test_before_1_37_the_uid_says_whose_tolerations_are_more(minor: int) -> None:
    cluster = Cluster(rules_of(minor))
    plugin = TaintToleration(None, Handle(cluster, ClusterFile(cluster, [])))
    event = ClusterEvent(POD, ActionType.UPDATE_POD_TOLERATION)
    assert event in plugin.retry_on
    own, other = make_pod("own"), make_pod("other")
    hints = [plugin.queueing_hint(event, own, changed, changed) for changed in (own, other)]
    assert hints == [QueueingHint.QUEUE, QueueingHint.SKIP]


def test_before_filter_it_has_nothing_to_say() -> None:
    cluster = Cluster(rules_of(37))
    plugin = TaintToleration(None, Handle(cluster, ClusterFile(cluster, [])))
    assert plugin.pre_filter(CycleState(Pod()), Pod()) is None


@settings(max_examples=50)
@given(world=worlds(node_taints=taints), tolerated=tolerations)
def test_nodes_are_rejected_by_their_first_taint_that_is_not_tolerated(
    world: PluginWorld, tolerated: tuple[Toleration, ...]
) -> None:
    pod = Pod(spec=PodSpec(tolerations=tolerated))
    expected = []
    for node in existing(world):
        hard = [taint for taint in node.taints if taint.effect in ("NoSchedule", "NoExecute")]
        first = next((taint for taint in hard if not covered(taint, tolerated)), None)
        expected.append(first and unresolvable(f"node(s) had untolerated taint {{{first.key}: {first.value}}}"))
    assert_equal_on_nodes(world, rejected(TaintToleration(None, world.handle), CycleState(pod), pod, world), expected)


@settings(max_examples=50)
@given(world=worlds(node_taints=taints), tolerated=tolerations)
def test_scores_count_the_taints_that_are_merely_endured(world: PluginWorld, tolerated: tuple[Toleration, ...]) -> None:
    pod = Pod(spec=PodSpec(tolerations=tolerated))
    plugin, state = TaintToleration(None, world.handle), CycleState(pod)
    assert plugin.pre_score(state, pod, world.view) is None
    soft = tuple(toleration for toleration in tolerated if toleration.effect in ("", "PreferNoSchedule"))
    assert_equal_on_nodes(
        world,
        plugin.score(state, pod, world.view).tolist(),
        [
            sum(taint.effect == "PreferNoSchedule" and not covered(taint, soft) for taint in node.taints)
            for node in existing(world)
        ],
    )


@given(counts=st.lists(st.integers(0, 9), max_size=6))
def test_the_node_with_the_fewest_gets_the_most_points(counts: list[int]) -> None:
    world = empty_world()
    plugin = TaintToleration(None, world.handle)
    points = plugin.normalize(CycleState(Pod()), Pod(), world.view, np.array(counts, np.int64)).tolist()
    highest = max(counts, default=0)
    assert points == [100 - 100 * count // highest if highest else 100 for count in counts]


def test_without_prescore_there_is_no_score() -> None:
    world = empty_world()
    with pytest.raises(PluginError, match='failed to read "PreScoreTaintToleration" from cycleState: not found'):
        TaintToleration(None, world.handle).score(CycleState(Pod()), Pod(), world.view)


@pytest.mark.parametrize(
    ("is_on", "expected", "points"),
    [
        (False, ["node(s) had untolerated taint(s)"] * 2, [0, 100, 0]),
        (True, ["node(s) had untolerated taint(s)", None], [0, 100, 100]),
    ],
)
def test_tolerations_compare_numbers_behind_a_gate(is_on: bool, expected: list[str | None], points: list[int]) -> None:
    cluster = Cluster(rules_of(37, {"TaintTolerationComparisonOperators": is_on}))
    for name, value in (("low", "94"), ("high", "96")):
        hard, soft = Taint("sla", value, "NoSchedule"), Taint("spare", value, "PreferNoSchedule")
        cluster.apply_node(Node(ObjectMeta(name=f"hard-{name}"), NodeSpec(taints=(hard,))))
        cluster.apply_node(Node(ObjectMeta(name=f"soft-{name}"), NodeSpec(taints=(soft,))))
    plugin = TaintToleration(None, Handle(cluster, ClusterFile(cluster, [])))
    pod = Pod(spec=PodSpec(tolerations=(Toleration("sla", "Gt", "95"), Toleration("spare", "Gt", "95"))))
    state = CycleState(pod)

    def nodes(*names: str) -> NodeView:
        return cluster.view(cluster.nodes.rows_named(names))

    hard_nodes = nodes("hard-low", "hard-high")
    assert reasons(plugin.filter(state, pod, hard_nodes), hard_nodes) == expected
    # Without a taint to endure, there is nothing to tell apart: a node without taints is best.
    cluster.apply_node(Node(ObjectMeta(name="free")))
    scored = nodes("soft-low", "free", "soft-high")
    plugin.pre_score(state, pod, scored)
    assert plugin.normalize(state, pod, scored, plugin.score(state, pod, scored)).tolist() == points

"""DefaultPreemption tries nodes in growing chunks, from a random one on, and decides as if it had tried them singly."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.config.rules import DEFAULT_RULES, Rules, rules_of
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import PostFilterResult
from extender_service.framework.preemption.candidates import NO_CANDIDATES, Candidates, best_candidates, sampled
from extender_service.framework.preemption.dry_run import dry_run
from extender_service.framework.status import Code
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.types.core import Pod
from extender_service.plugins.default_preemption import DefaultPreemption, DefaultPreemptionArgs
from tests.support.clusters.preemption_worlds import budget, judging, preemption_cluster, preemptor, running
from tests.support.objects import make_node

NODES = "abcdefghij"


def full_nodes(protected: str = "", important: str = "", rules: Rules = DEFAULT_RULES) -> Cluster:
    """Nodes that are full of one pod each; on some of the nodes, a budget protects it, or it is too important."""
    pods = [
        running(
            f"on-{node}",
            node,
            priority=20 if node in important else 1,
            cpu=4,
            started=1,
            app="db" if node in protected else "web",
        )
        for node in NODES
    ]
    return preemption_cluster(pods, [budget("db", "db", 0)], nodes=NODES, rules=rules)


class Offsets(Random):
    """Draws the node to begin with as a test says; everything else at random."""

    def __init__(self, draw: Callable[[int], int]) -> None:
        super().__init__()
        self._draw = draw

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        assert (stop, step) == (None, 1)
        return self._draw(start)


def preempted(
    cluster: Cluster, pod: Pod, *, wanted: int, draw_offset: Callable[[int], int], percentage: int = 0
) -> tuple[PostFilterResult, list[str]]:
    """What the plugin does with so many candidates wanted, and the nodes of each chunk that it tried."""
    args = DefaultPreemptionArgs(min_candidate_nodes_percentage=percentage, min_candidate_nodes_absolute=wanted)
    handle = Handle(cluster, ClusterFile(cluster, []), random=Offsets(draw_offset))
    plugin = DefaultPreemption(args, handle)
    judge = judging(cluster, pod)
    asked = [""]

    def filter_again(nodes: NodeView) -> Verdicts:
        asked.append("".join(nodes.names))
        return judge(nodes)

    verdicts = judge(cluster.view(cluster.nodes.rows_named(list(NODES))))
    result = plugin.post_filter(CycleState(pod), pod, verdicts, filter_again)
    # Of each chunk the plugin asks several times: of all its nodes first, then of those to which a pod is given back.
    return result, [later for earlier, later in pairwise(asked) if not set(later) <= set(earlier)]


def test_nodes_are_tried_from_a_random_one_on_until_there_are_enough_candidates() -> None:
    drawn_of: list[int] = []

    def last_but_one(count: int) -> int:
        drawn_of.append(count)
        return count - 2

    result, chunks = preempted(full_nodes(), preemptor(4), wanted=3, draw_offset=last_but_one)
    assert (drawn_of, chunks) == ([10], ["ija"])
    assert result.node_name in "ija"


def test_only_nodes_where_preemption_may_help_are_drawn_from() -> None:
    cluster = full_nodes()
    cluster.apply_node(make_node("b", {"cpu": "4", "pods": "10"}, unschedulable=True))
    _, chunks = preempted(cluster, preemptor(4), wanted=1, draw_offset=lambda count: {9: 1}[count])
    assert chunks == ["c"]


@pytest.mark.parametrize(
    ("protected", "chunks"),
    [("", ["a"]), ("a", ["a", "bc"]), ("abc", ["a", "bc", "defg"]), (NODES, ["a", "bc", "defg", "hij"])],
)
def test_each_chunk_is_twice_as_large_until_a_node_needs_no_protected_pod(protected: str, chunks: list[str]) -> None:
    result, tried = preempted(full_nodes(protected), preemptor(4), wanted=1, draw_offset=lambda _: 0)
    assert tried == chunks
    assert result.node_name == ("a" if protected == NODES else chunks[-1][0])


def test_where_no_node_helps_all_are_tried() -> None:
    result, chunks = preempted(full_nodes(), preemptor(5), wanted=2, draw_offset=lambda _: 4)
    assert (result.status.code, chunks) == (Code.UNSCHEDULABLE, ["ef", "ghijabcd"])
    assert result.status.message == ("preemption: 0/10 nodes are available: 10 Insufficient cpu.")


@pytest.mark.parametrize(
    ("minor", "important", "text"),
    [
        (31, "", "0/0 nodes are available:"),
        (31, "ab", "0/2 nodes are available: 2 No preemption victims found for incoming pod."),
        (32, "", "0/10 nodes are available: 10 Preemption is not helpful for scheduling."),
        (
            37,
            "ab",
            (
                "0/10 nodes are available: 2 No preemption victims found for incoming pod, "
                "8 Preemption is not helpful for scheduling."
            ),
        ),
    ],
)
def test_where_the_percentage_of_the_nodes_is_no_node_nothing_is_preempted(
    minor: int, important: str, text: str
) -> None:
    cluster = full_nodes(important=important, rules=rules_of(minor))
    result, _ = preempted(cluster, preemptor(4), wanted=0, percentage=9, draw_offset=lambda _: 0)
    assert (result.status.code, result.node_name, result.victims) == (Code.UNSCHEDULABLE, "", ())
    assert result.status.message == f"preemption: {text}"


worlds = st.lists(
    st.tuples(st.sampled_from(NODES), st.sampled_from([1, 5, 20]), st.integers(1, 3), st.sampled_from(["web", "db"])),
    max_size=30,
)


@given(worlds, st.integers(0, 9), st.integers(1, 12))
def test_the_choice_is_one_that_trying_node_after_node_may_end_with(
    drawn: Sequence[tuple[str, int, int, str]], offset: int, wanted: int
) -> None:
    pods = [
        running(f"pod-{number}", node, priority=priority, cpu=cpu, started=number, app=app)
        for number, (node, priority, cpu, app) in enumerate(drawn)
    ]
    cluster, pod = preemption_cluster(pods, [budget("db", "db", 0)], nodes=NODES), preemptor(4)
    result, _ = preempted(cluster, pod, wanted=wanted, draw_offset=lambda count: offset % count)
    judge = judging(cluster, pod)
    verdicts = judge(cluster.view(cluster.nodes.rows_named(list(NODES))))
    hopeful = [name for name, passes in zip(NODES, verdicts.passing, strict=True) if not passes]
    start = offset % len(hopeful) if hopeful else 0

    node_after_node = [
        dry_run(cluster, pod, cluster.view(cluster.nodes.rows_named([name])), judge).candidates
        for name in hopeful[start:] + hopeful[:start]
    ]
    enough = sampled(Candidates.joined([NO_CANDIDATES, *node_after_node]), min(wanted, len(hopeful)))
    best = list(best_candidates(cluster.pods, enough)) if len(enough) else []
    assert (result.node_name, result.victims) in [(each.node_name, each.victims) for each in best] or not best
    assert bool(result.node_name) == bool(best)

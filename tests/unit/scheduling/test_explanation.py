import logging
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.interface import Filter
from extender_service.framework.profile import Profile
from extender_service.framework.profiles import Profiles
from extender_service.framework.status import Rejections, Status, unresolvable, unschedulable
from extender_service.kube.types.core import Pod, Taint
from extender_service.plugins.taint_toleration import TaintToleration
from extender_service.scheduling.decision import Decision
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.explanation import (
    OTHER_REASONS,
    best_scores,
    explained,
    grounds,
    refusals,
    why_chosen,
)
from extender_service.scheduling.question import Question
from tests.support.objects import make_node
from tests.support.stub_plugins import POD, Stub, make_handle, make_profile, stub_cluster

NAMES = [f"n{number}" for number in range(6)]
FULL, BUSY = unschedulable("Insufficient cpu"), unschedulable("Insufficient cpu", "Too many pods")


def decided(profile: Profile, cluster: Cluster, names: Sequence[str]) -> Decision:
    engine = Engine(cluster, Profiles({"default-scheduler": profile}), make_handle(cluster).pods)
    return engine.decide(Question(POD, engine.nodes.named(names)))


class Says(Filter):
    """Gives a node the status by its number; 0 is that of nodes that pass."""

    name = "Says"

    def __init__(self, numbers: Sequence[int], status_of: Callable[[int], Status]) -> None:
        super().__init__(None, make_handle(Cluster()))
        self._rejections = Rejections(np.array(numbers, np.int64), status_of)

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        return self._rejections


def filtering(plugin: Filter) -> Profile:
    return Profile("default-scheduler", {"filter": [(plugin, 1)]})


def test_nodes_are_counted_by_reason_and_by_the_plugin_that_was_first() -> None:
    first = Stub("First", rejects={"n1": FULL, "n2": BUSY, "n3": FULL})
    second = Stub("Second", rejects={"n3": unresolvable("late"), "n4": unresolvable("tainted")})
    decision = decided(make_profile(first, second), stub_cluster(*NAMES), [*NAMES, "unknown"])
    reasons, plugins = refusals(grounds(decision))
    assert reasons == {"Insufficient cpu": 3, "Too many pods": 1, "tainted": 1}
    assert list(plugins.items()) == [("First", 3), ("Second", 1)]
    assert grounds(decision).unknown == 1


def test_where_all_nodes_pass_there_is_nothing_to_count() -> None:
    decision = decided(make_profile(Stub("Passes")), stub_cluster(*NAMES), NAMES)
    assert refusals(grounds(decision)) == ({}, {})


def test_nodes_that_pre_filter_left_out_are_counted() -> None:
    decision = decided(make_profile(Stub("Picks", pre_filter={"n1"})), stub_cluster(*NAMES), NAMES)
    reasons, plugins = refusals(grounds(decision))
    assert reasons == {"node(s) didn't satisfy plugin(s) [Picks]": 5}
    assert not plugins


def test_a_reason_of_its_own_for_each_node_is_not_listed_for_all() -> None:
    names = [f"n{number}" for number in range(300)]
    says = Says([*range(1, 281), *(20 * [1000])], lambda key: unschedulable(f"reason {key}"))
    reasons, plugins = refusals(grounds(decided(filtering(says), stub_cluster(*names), names)))
    assert len(reasons) == 101
    assert reasons["reason 1000"] == 20
    assert reasons[OTHER_REASONS] == 300 - 20 - 99
    assert plugins == {"Says": 300}


def test_a_long_reason_is_cut() -> None:
    rejects = dict.fromkeys(NAMES, unschedulable(100_000 * "x"))
    reasons, _ = refusals(grounds(decided(make_profile(Stub("Says", rejects=rejects)), stub_cluster(*NAMES), NAMES)))
    assert [(len(reason), nodes) for reason, nodes in reasons.items()] == [(1001, 6)]


def test_a_plugin_that_cannot_say_why_is_logged_and_its_nodes_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    def status_of(key: int) -> Status:
        raise ZeroDivisionError

    decision = decided(filtering(Says([1, 0, 1, 0, 0, 0], status_of)), stub_cluster(*NAMES), NAMES)
    assert refusals(grounds(decision)) == ({OTHER_REASONS: 2}, {"Says": 2})
    failure, line = caplog.records
    assert failure.exc_info is not None
    assert (line.levelno, vars(line)["plugin"]) == (logging.ERROR, "Says")


def test_reasons_are_those_of_the_decision_whatever_has_changed_since() -> None:
    cluster = Cluster()
    tainted, other = Taint("gpu", "yes", "NoSchedule"), Taint("later", "", "NoSchedule")
    cluster.apply_node(make_node("a", taints=[tainted]))
    cluster.apply_node(make_node("b"))
    profile = filtering(TaintToleration(None, make_handle(cluster)))
    on = grounds(decided(profile, cluster, ["a", "b"]))
    cluster.apply_node(make_node("a"))
    cluster.apply_node(make_node("c", taints=[other]))
    assert refusals(on).reasons == {"node(s) had untolerated taint {gpu: yes}": 1}


SCORES: Mapping[str, Mapping[str, int]] = {
    "Packs": {"n0": 10, "n1": 90, "n2": 90, "n3": 20, "n4": 0, "n5": 90},
    "Spreads": {"n0": 100, "n1": 5, "n2": 5, "n3": 5, "n4": 5, "n5": 5},
}


@pytest.fixture
def scored() -> Decision:
    plugins = [Stub(name, scores=scores) for name, scores in SCORES.items()]
    weights = {"Packs": 2, "Spreads": 1}
    return decided(make_profile(*plugins, weights=weights), stub_cluster(*NAMES), [*reversed(NAMES), "unknown"])


def test_the_best_nodes_have_what_each_plugin_contributed(scored: Decision) -> None:
    best = best_scores(grounds(scored), 4)
    assert [(node.total, node.by_plugin) for node in best] == [
        *3 * [(185, {"Packs": 180, "Spreads": 5})],
        (120, {"Packs": 20, "Spreads": 100}),
    ]
    assert {node.node_name for node in best[:3]} == {"n1", "n2", "n5"}
    assert best[3].node_name == "n0"


def test_of_equal_nodes_the_chosen_one_is_first(scored: Decision) -> None:
    for _ in range(20):
        name = scored.question.nodes.view.name_at(scored.choose())
        assert best_scores(grounds(scored), 2)[0].node_name == name


def test_where_only_one_node_passes_none_was_scored() -> None:
    rejects = dict.fromkeys(NAMES[1:], FULL)
    plugins = Stub("Rejects", rejects=rejects), Stub("Scores", scores=SCORES["Packs"])
    assert best_scores(grounds(decided(make_profile(*plugins), stub_cluster(*NAMES), NAMES)), 3) == []


def test_a_line_of_the_log_has_the_scores_only_where_they_are_wanted(scored: Decision) -> None:
    reason = "node(s) not known"
    without = {"reasons": f"6/7 nodes are available: 1 {reason}."}
    assert explained(grounds(scored), 7, 6, unknown_reason=reason) == without
    fields = explained(grounds(scored), 7, 6, unknown_reason=reason, with_scores=True)
    nodes = str(fields.pop("scores")).split("; ")
    assert fields == without
    assert len(nodes) == 3
    assert {node.partition(" ")[2] for node in nodes} == {"185: Packs 180, Spreads 5"}


def test_a_line_of_the_log_counts_refusals_by_reason_and_by_plugin() -> None:
    rejects = {"n1": FULL, "n2": FULL, "n3": unresolvable("tainted")}
    decision = decided(make_profile(Stub("Rejects", rejects=rejects)), stub_cluster(*NAMES), NAMES)
    assert explained(grounds(decision), 6, 3) == {
        "reasons": "3/6 nodes are available: 1 tainted, 2 Insufficient cpu.",
        "refused_by": "3 Rejects",
    }


def test_a_node_is_the_best_by_the_plugin_that_makes_most_of_the_difference() -> None:
    scores = {"Packs": {"n0": 10, "n1": 90, "n2": 30}, "Spreads": {"n0": 100, "n1": 5, "n2": 80}}
    plugins = [Stub(name, scores=of_nodes) for name, of_nodes in scores.items()]
    names = ["n0", "n1", "n2"]
    decision = decided(make_profile(*plugins, weights={"Packs": 3}), stub_cluster(*names), names)
    decision.choose()
    assert why_chosen(decision) == "the best of 3 feasible nodes: n1 275, n2 170 (most by Packs: 270 to 90)"


def test_of_equal_nodes_one_is_said_to_be_taken(scored: Decision) -> None:
    name = scored.question.nodes.view.name_at(scored.choose())
    others = [other for other in ("n1", "n2", "n5") if other != name]
    said = why_chosen(scored)
    assert said in [f"one of the 3 best of 6 feasible nodes: {name} 185, {other} 185" for other in others]


def test_where_there_was_no_choice_the_reasons_against_the_others_say_why() -> None:
    rejects = dict.fromkeys(NAMES[1:], FULL)
    plugins = Stub("Rejects", rejects=rejects), Stub("Scores", scores=SCORES["Packs"])
    only = decided(make_profile(*plugins), stub_cluster(*NAMES), NAMES)
    assert why_chosen(only) == "1/6 nodes are available: 5 Insufficient cpu."
    alone = decided(make_profile(*plugins), stub_cluster("n0"), ["n0"])
    assert why_chosen(alone) == "1/1 nodes are available."


def test_where_no_plugin_scores_chance_says_why() -> None:
    decision = decided(filtering(Says([0, 1, 0], lambda _: FULL)), stub_cluster(*NAMES[:3]), NAMES[:3])
    said = "2/3 nodes are available: 1 Insufficient cpu. No plugin scores them: one was taken at random."
    assert why_chosen(decision) == said


def test_the_best_of_thousands_are_found_in_their_order() -> None:
    names = [f"n{number}" for number in range(3000)]
    scores = {name: number % 97 for number, name in enumerate(names)}
    decision = decided(make_profile(Stub("Scores", scores=scores)), stub_cluster(*names), names)
    chosen = decision.question.nodes.view.name_at(decision.choose())
    best = best_scores(grounds(decision), 40)
    assert best[0].node_name == chosen
    assert [node.total for node in best] == sorted(scores.values(), reverse=True)[:40]
    assert len({node.node_name for node in best}) == 40

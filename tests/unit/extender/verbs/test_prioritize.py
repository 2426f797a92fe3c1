import asyncio
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from extender_service.cluster.view.node_view import NodeView
from extender_service.extender.modes import Mode
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import PreFilter, Score
from extender_service.framework.status import unresolvable
from extender_service.kube.types.core import Pod, Taint
from tests.support.clusters.extender_world import ExtenderWorld
from tests.support.objects import make_node, make_pod

WEB = make_pod("web", requests={"cpu": "1", "memory": "1Gi"})


class ByNumber(Score):
    """Scores a node by the number in its name."""

    name = "ByNumber"

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        return np.array([int(name.split("-")[1]) for name in nodes.names], np.int64)


def prioritize(world: ExtenderWorld, names: list[str], pod: Pod = WEB) -> list[tuple[str, int]]:
    answer = asyncio.run(world.call("prioritize", {"Pod": pod, "Nodes": None, "NodeNames": names}))
    assert isinstance(answer, list)
    assert all(set(priority) == {"Host", "Score"} for priority in answer)
    return [(priority["Host"], priority["Score"]) for priority in answer]


def numbered(*numbers: int, mode: Mode, weight: int = 1) -> ExtenderWorld:
    world = ExtenderWorld(*(make_node(f"n-{number}") for number in numbers), mode=mode, plugins={})
    plugin = ByNumber(None, Handle(world.cluster, world.pods))
    profile = world.profile
    profile.score = ((plugin, weight),)
    return world


def test_beside_kube_scheduler_scores_are_0_to_10_rounded_to_the_nearest() -> None:
    names = ["n-100", "n-0", "n-4", "n-5", "n-14", "n-15", "n-94", "n-95"]
    world = numbered(0, 4, 5, 14, 15, 94, 95, 100, mode="beside", weight=3)
    assert prioritize(world, names) == list(zip(names, [10, 0, 0, 1, 1, 2, 9, 10], strict=True))


def test_in_place_of_kube_scheduler_scores_are_the_weighted_totals() -> None:
    world = numbered(0, 57, 58, 100, mode="replace", weight=3)
    names = ["n-58", "n-100", "n-57", "n-0"]
    assert prioritize(world, names) == [("n-58", 174), ("n-100", 300), ("n-57", 171), ("n-0", 0)]


@pytest.mark.parametrize("mode", ["beside", "replace"])
@pytest.mark.parametrize("others", [0, 20])
def test_a_node_that_is_not_known_scores_0(mode: Mode, others: int) -> None:
    world = numbered(100, *range(others), mode=mode)
    assert prioritize(world, ["n-999", "n-100"]) == [("n-999", 0), ("n-100", 10 if mode == "beside" else 100)]
    assert prioritize(world, ["n-999"]) == [("n-999", 0)]


def test_no_known_nodes_at_all() -> None:
    assert prioritize(ExtenderWorld(), ["a"]) == [("a", 0)]
    assert prioritize(ExtenderWorld(), []) == []


def test_without_score_plugins_all_score_0() -> None:
    world = ExtenderWorld(make_node("a"), plugins={})
    assert prioritize(world, ["a"]) == [("a", 0)]


def test_the_default_plugins_tell_nodes_apart() -> None:
    world = ExtenderWorld(
        make_node("roomy", {"cpu": "32", "memory": "64Gi", "pods": "110"}),
        make_node("tight", {"cpu": "1", "memory": "1Gi", "pods": "110"}),
        make_node(
            "endured", {"cpu": "32", "memory": "64Gi", "pods": "110"}, taints=[Taint("a", "", "PreferNoSchedule")]
        ),
    )
    scores = dict(prioritize(world, ["tight", "roomy", "endured"]))
    assert min(scores.values()) >= 0
    assert max(scores.values()) == scores["roomy"] <= 10
    assert scores["roomy"] > scores["tight"]
    assert scores["roomy"] > scores["endured"]


def test_whole_nodes_are_scored_as_they_came() -> None:
    world = ExtenderWorld(make_node("a", {"cpu": "2", "memory": "8Gi", "pods": "9"}), mode="replace")

    def score(cpu: str) -> Any:
        node = {"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "9"}}}
        return asyncio.run(world.call("prioritize", {"Pod": WEB, "Nodes": {"items": [node]}}))[0]["Score"]

    assert score("64") > score("2") == prioritize(world, ["a"])[0][1]


def test_only_the_nodes_asked_for_are_compared() -> None:
    """Scores are normalised over the feasible nodes, which kube-scheduler names."""
    world = ExtenderWorld(
        make_node("half", labels={"disk": "hdd"}), make_node("full", labels={"disk": "ssd"}), mode="replace"
    )
    terms = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": [disk]}]}}
        for weight, disk in ((30, "hdd"), (60, "ssd"))
    ]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    pod = {"metadata": {"name": "web"}, "spec": {"affinity": affinity}}

    def score_of_half(names: list[str]) -> Any:
        return asyncio.run(world.call("prioritize", {"Pod": pod, "NodeNames": names}))[0]["Score"]

    # The default profile weighs NodeAffinity by 2: 100 points more as the best than as half as good as the best.
    assert score_of_half(["half"]) - score_of_half(["half", "full"]) == 100


class Refuses(PreFilter):
    name = "Refuses"

    def pre_filter(self, state: CycleState, pod: Pod) -> Any:
        return unresolvable("no")


def test_what_prefilter_refused_is_scored_all_the_same() -> None:
    """kube-scheduler asks about nodes that passed: to refuse them was for the filter verb."""
    world = numbered(50, mode="replace")
    world.profile.pre_filter = (Refuses(None, Handle(world.cluster, world.pods)),)
    assert prioritize(world, ["n-50"]) == [("n-50", 50)]


def test_an_invalid_score_is_an_error_that_has_no_room_in_the_answer() -> None:
    world = numbered(101, mode="replace")
    answer = asyncio.run(world.post("prioritize", {"Pod": WEB, "NodeNames": ["n-101"]}))
    assert answer.status_code == 500
    assert answer.json() == {
        "Error": 'applying score defaultWeights on Score plugins: plugin "ByNumber" returns an invalid score 101, it '
        "should in the range of [0, 100] after normalizing"
    }
    assert world.observations[0].pod == "default/web"

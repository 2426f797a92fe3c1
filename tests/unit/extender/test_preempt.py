import asyncio
from typing import Any

import pytest

from extender_service.kube.objects import Taint
from tests.unit.cluster.objects import make_node, make_pod
from tests.unit.extender.world import World

WEB = make_pod("web", requests={"cpu": "2"})


def world_with_pods(**pods: list[str]) -> World:
    """Nodes of 2 CPUs, full of pods of one CPU each, by node name."""
    world = World(*(make_node(name, {"cpu": "2", "memory": "8Gi", "pods": "10"}) for name in pods))
    for node_name, names in pods.items():
        for name in names:
            world.cluster.apply_pod(make_pod(name, node_name, requests={"cpu": "1"}))
    return world


def meta(*names: str, pdb_violations: int = 0) -> dict[str, Any]:
    return {"Pods": [{"UID": f"uid-of-{name}"} for name in names], "NumPDBViolations": pdb_violations}


def preempt(world: World, victims: dict[str, Any], pod: Any = WEB) -> Any:
    answer = asyncio.run(
        world.call("preempt", {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims})
    )
    assert set(answer) == {"NodeNameToMetaVictims"}
    return answer["NodeNameToMetaVictims"]


def test_nodes_are_kept_where_the_pod_fits_without_the_victims() -> None:
    world = world_with_pods(a=["a1", "a2"], b=["b1", "b2"])
    kept = preempt(world, {"a": meta("a1", "a2", pdb_violations=1), "b": meta("b1")})
    assert kept == {"a": meta("a1", "a2", pdb_violations=1)}
    (observation,) = world.observations
    assert (observation.verb, observation.asked, observation.passed) == ("preempt", 2, 1)


def test_nothing_changes_in_the_cluster() -> None:
    world = world_with_pods(a=["a1", "a2"])
    preempt(world, {"a": meta("a1", "a2")})
    assert (world.cpu_milli("a"), world.cluster.pod_count) == (2000, 2)
    assert preempt(world, {"a": meta("a1")}) == {}


def test_what_deleting_pods_does_not_help_against_drops_the_node() -> None:
    world = world_with_pods(a=["a1", "a2"])
    world.cluster.apply_node(make_node("a", taints=[Taint("gpu", "", "NoSchedule")]))
    assert preempt(world, {"a": meta("a1", "a2")}) == {}


def test_victims_that_are_not_on_that_node_are_left_out() -> None:
    world = world_with_pods(a=["a1", "a2"], b=["b1"])
    victims = {"a": meta("a1", "a2", "b1", "gone"), "b": meta("gone", "a1")}
    assert preempt(world, victims) == {"a": meta("a1", "a2")}


def test_no_node_is_answered_with_no_victims() -> None:
    """kube-scheduler takes an empty list for a candidate, and fails on it."""
    world = world_with_pods(a=["a1", "a2"], empty=[])
    assert preempt(world, {"empty": meta(), "a": meta("gone"), "unknown": meta("a1")}) == {}
    assert preempt(world, {"empty": None, "a": {"Pods": None, "NumPDBViolations": 0}}) == {}
    assert preempt(world, {}) == {}


def test_a_victim_that_is_proposed_twice_makes_room_once() -> None:
    world = world_with_pods(a=["a1", "a2"])
    assert preempt(world, {"a": meta("a1", "a1")}) == {}
    assert preempt(world, {"a": meta("a1", "a1", "a2")}) == {"a": meta("a1", "a2")}


def test_a_node_that_is_gone_is_dropped() -> None:
    world = world_with_pods(a=["a1", "a2"])
    world.cluster.remove_node("a")
    assert preempt(world, {"a": meta("a1", "a2")}) == {}


def test_expected_pods_on_the_node_count() -> None:
    world = world_with_pods(a=["a1"])
    expected = make_pod("expected", requests={"cpu": "1"})
    world.cluster.placements.expect(expected, "uid-of-expected", "a")
    assert preempt(world, {"a": meta("a1")}) == {}
    assert preempt(world, {"a": meta("a1", "expected")}) == {"a": meta("a1", "expected")}


def test_host_ports_of_victims_are_free() -> None:
    world = World(make_node("a"), make_node("b"))
    for name in ("a", "b"):
        world.cluster.apply_pod(make_pod(f"web-{name}", name, ports=[80]))
        world.cluster.apply_pod(make_pod(f"idle-{name}", name))
    pod = make_pod("new", ports=[80])
    assert preempt(world, {"a": meta("web-a"), "b": meta("idle-b")}, pod) == {"a": meta("web-a")}


def test_whole_victims_are_answered_by_their_uids() -> None:
    world = world_with_pods(a=["a1", "a2"], b=["b1", "b2"])
    victims = {
        "a": {"Pods": [make_pod("a1", "a"), make_pod("a2", "a")], "NumPDBViolations": 2},
        "b": {"Pods": [make_pod("b1", "b")], "NumPDBViolations": 0},
    }
    body = {"Pod": WEB, "NodeNameToVictims": victims, "NodeNameToMetaVictims": None}
    answer = asyncio.run(world.call("preempt", body))
    assert answer == {"NodeNameToMetaVictims": {"a": meta("a1", "a2", pdb_violations=2)}}
    assert world.observations[0].asked == 2


@pytest.mark.parametrize("others", [0, 50])
def test_each_node_is_judged_without_its_own_victims_only(others: int) -> None:
    world = world_with_pods(**{name: [f"{name}1", f"{name}2"] for name in ("a", "b", "c")})
    for number in range(others):
        world.cluster.apply_node(make_node(f"other-{number}"))
    victims = {"c": meta("c2", "c1"), "a": meta("a1"), "b": meta("b1", "b2")}
    assert preempt(world, victims) == {"c": meta("c2", "c1"), "b": meta("b1", "b2")}

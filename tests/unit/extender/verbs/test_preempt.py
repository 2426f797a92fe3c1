import asyncio
from typing import Any

import pytest
from msgspec import structs

from extender_service.config.rules import DEFAULT_RULES, Rules, rules_of
from extender_service.extender.modes import Mode
from extender_service.kube.types.core import LabelSelector, ObjectMeta, Pod, PodResourceClaim, Taint
from extender_service.kube.types.policy import PodDisruptionBudget, PodDisruptionBudgetSpec
from tests.support.clusters.extender_world import ExtenderWorld
from tests.support.objects import in_group, make_node, make_pod, preempted

WEB = make_pod("web", requests={"cpu": "2"})


def world_with_pods(**pods: list[str]) -> ExtenderWorld:
    """Nodes of 2 CPUs, full of pods of one CPU each, by node name."""
    world = ExtenderWorld(*(make_node(name, {"cpu": "2", "memory": "8Gi", "pods": "10"}) for name in pods))
    for node_name, names in pods.items():
        for name in names:
            world.cluster.apply_pod(make_pod(name, node_name, requests={"cpu": "1"}))
    return world


def meta(*names: str, pdb_violations: int = 0) -> dict[str, Any]:
    return {"Pods": [{"UID": f"uid-of-{name}"} for name in names], "NumPDBViolations": pdb_violations}


def preempt(world: ExtenderWorld, victims: dict[str, Any], pod: Any = WEB) -> Any:
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
    world.cluster.placements.place(expected, "uid-of-expected", "a")
    assert preempt(world, {"a": meta("a1")}) == {}
    assert preempt(world, {"a": meta("a1", "expected")}) == {"a": meta("a1", "expected")}


def test_host_ports_of_victims_are_free() -> None:
    world = ExtenderWorld(make_node("a"), make_node("b"))
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


def prioritised(name: str, node: str = "", *, priority: int, cpu: str = "1", app: str = "") -> Pod:
    pod = make_pod(name, node, requests={"cpu": cpu})
    return structs.replace(
        pod,
        metadata=structs.replace(pod.metadata, labels={"app": app} if app else {}),
        spec=structs.replace(pod.spec, priority=priority),
        status=structs.replace(pod.status, start_time="2026-01-01T00:00:00Z"),
    )


def world_of_priorities(mode: Mode, rules: Rules = DEFAULT_RULES) -> ExtenderWorld:
    """Nodes a and b of 2 CPUs, each full of a pod of priority 5 and one of priority 1."""
    nodes = (make_node(name, {"cpu": "2", "memory": "8Gi", "pods": "10"}) for name in "ab")
    world = ExtenderWorld(*nodes, mode=mode, rules=rules)
    for name in "ab":
        world.cluster.apply_pod(prioritised(f"{name}-high", name, priority=5, app="web"))
        world.cluster.apply_pod(prioritised(f"{name}-low", name, priority=1))
    return world


SMALL = prioritised("web", priority=10)
LARGE = prioritised("web", priority=10, cpu="2")


def test_beside_kube_scheduler_its_victims_are_kept_and_more_are_added_only_where_they_do_not_suffice() -> None:
    world = world_of_priorities("beside")
    proposed = {"a": meta("a-high"), "b": meta("b-low")}
    assert preempt(world, proposed, SMALL) == proposed
    extended = {"a": meta("a-high", "a-low"), "b": meta("b-high", "b-low")}
    assert preempt(world, proposed, LARGE) == extended


def test_in_place_of_kube_scheduler_its_victims_do_not_count() -> None:
    world = world_of_priorities("replace")
    proposed = {"a": meta("a-high", "a-low"), "b": meta("b-high")}
    assert preempt(world, proposed, SMALL) == {"a": meta("a-low"), "b": meta("b-low")}


def test_where_no_victim_is_needed_the_proposed_ones_go() -> None:
    """kube-scheduler deletes pods on the node that it picks, and cannot be told that none need be."""
    world = world_of_priorities("replace")
    world.cluster.remove_pod(("default", "a-high"))
    assert preempt(world, {"a": meta("a-low", pdb_violations=1)}, SMALL) == {"a": meta("a-low", pdb_violations=1)}


@pytest.mark.parametrize("mode", ["beside", "replace"])
def test_pods_of_the_same_priority_are_spared(mode: Mode) -> None:
    world = world_of_priorities(mode)
    world.cluster.apply_pod(prioritised("a-high", "a", priority=10))
    assert preempt(world, {"a": meta("a-low"), "b": meta("b-low")}, LARGE) == {"b": meta("b-high", "b-low")}


@pytest.mark.parametrize("mode", ["beside", "replace"])
def test_violations_of_budgets_are_counted_anew_where_the_victims_are_not_those_proposed(mode: Mode) -> None:
    world = world_of_priorities(mode)
    world.cluster.workloads.apply(
        PodDisruptionBudget(
            ObjectMeta(name="web", namespace="default"), PodDisruptionBudgetSpec(LabelSelector({"app": "web"}))
        )
    )
    assert preempt(world, {"a": meta("a-low")}, LARGE) == {"a": meta("a-high", "a-low", pdb_violations=1)}
    # The one that is gone may have been the one that violated a budget.
    world.cluster.apply_node(make_node("c", {"cpu": "1", "pods": "10"}))
    world.cluster.apply_pod(prioritised("c-low", "c", priority=1))
    proposed = {"c": meta("gone", "c-low", pdb_violations=1)}
    assert preempt(world, proposed, SMALL) == {"c": meta("c-low")}


def test_a_victim_that_waits_in_kube_schedulers_permit_makes_room_once_the_pod_is_nominated() -> None:
    """kube-scheduler rejects it there and does not delete it, so that no watch shows anything."""
    world = ExtenderWorld(make_node("a", {"cpu": "1", "memory": "8Gi", "pods": "10"}), mode="replace")
    waiting, urgent = prioritised("waiting", priority=1), prioritised("urgent", priority=5)
    nominated = structs.replace(urgent, status=structs.replace(urgent.status, nominated_node_name="a"))
    for pod in (waiting, urgent):
        world.cluster.apply_pod(pod)

    def filtered(pod: Pod) -> Any:
        return asyncio.run(world.filter(pod, ["a"]))["NodeNames"]

    assert filtered(waiting) == ["a"]
    assert filtered(urgent) == []
    assert preempt(world, {"a": meta("waiting")}, urgent) == {"a": meta("waiting")}
    assert filtered(urgent) == []  # kube-scheduler has not taken up the answer yet
    world.cluster.apply_pod(nominated)
    assert filtered(nominated) == ["a"]
    assert (world.expected_on(waiting), world.expected_on(urgent)) == (None, "a")
    assert filtered(waiting) == []


def test_no_pod_goes_for_one_that_is_refused_in_any_case() -> None:
    claims = structs.replace(SMALL, spec=structs.replace(SMALL.spec, resource_claims=(PodResourceClaim("gpu"),)))
    assert preempt(world_of_priorities("replace", rules_of(34)), {"a": meta("a-low")}, claims) == {}
    assert preempt(world_of_priorities("beside", rules_of(34)), {"a": meta("a-low")}, claims) == {"a": meta("a-low")}


@pytest.mark.parametrize("mode", ["beside", "replace"])
@pytest.mark.parametrize(("gates", "victims_on_a"), [({}, meta("a-low")), ({"GenericWorkload": True}, None)])
def test_no_part_of_a_group_goes_where_kube_scheduler_names_the_rest_of_it_on_another_node(
    mode: Mode, gates: dict[str, bool], victims_on_a: dict[str, Any] | None
) -> None:
    world = world_of_priorities(mode, rules_of(37, gates))
    for name in "ab":
        world.cluster.remove_pod(("default", f"{name}-low"))  # no pod joins a group later
        world.cluster.apply_pod(in_group(prioritised(f"{name}-low", name, priority=1)))
    answer = preempt(world, {"a": meta("a-low", "b-low"), "b": meta("b-high")}, SMALL)
    assert (answer.get("a"), "b" in answer) == (victims_on_a, True)


@pytest.mark.parametrize("mode", ["beside", "replace"])
def test_a_nominated_pod_of_a_scheduler_without_a_profile_keeps_its_room(mode: Mode) -> None:
    world = world_of_priorities(mode)
    urgent = prioritised("urgent", priority=10)
    urgent = structs.replace(urgent, status=structs.replace(urgent.status, nominated_node_name="a"))
    world.cluster.apply_pod(structs.replace(urgent, spec=structs.replace(urgent.spec, scheduler_name="own")))
    pod = structs.replace(SMALL, spec=structs.replace(SMALL.spec, scheduler_name="own"))
    assert preempt(world, {"a": meta("a-low")}, pod) == {"a": meta("a-high", "a-low")}


# While our watch is behind that of kube-scheduler.


def nominated(pod: Pod, node: str, version: str = "") -> Pod:
    return structs.replace(
        pod,
        metadata=structs.replace(pod.metadata, resource_version=version),
        status=structs.replace(pod.status, nominated_node_name=node),
    )


@pytest.mark.parametrize("mode", ["beside", "replace"])
def test_no_other_pod_goes_while_the_watch_still_shows_the_victims(mode: Mode) -> None:
    """kube-scheduler has seen them end, or it would not preempt again."""
    world = world_of_priorities(mode)
    world.cluster.apply_pod(preempted(prioritised("a-low", "a", priority=1)))
    proposed = {"b": meta("b-low")}
    assert preempt(world, proposed, nominated(SMALL, "a")) == {}
    world.cluster.remove_pod(("default", "a-low"))
    assert preempt(world, proposed, nominated(SMALL, "a")) == proposed


@pytest.mark.parametrize("mode", ["beside", "replace"])
def test_no_other_pod_goes_until_the_watch_has_shown_the_nomination(mode: Mode) -> None:
    world = world_of_priorities(mode)
    world.pods_version = "99"
    proposed = {"b": meta("b-low")}
    assert preempt(world, proposed, nominated(SMALL, "a", version="100")) == {}
    assert preempt(world, proposed, nominated(SMALL, "", version="100")) == proposed
    world.pods_version = "100"
    assert preempt(world, proposed, nominated(SMALL, "a", version="100")) == proposed


@pytest.mark.parametrize("mode", ["beside", "replace"])
def test_other_pods_go_where_the_nominated_node_is_of_no_use_any_more(mode: Mode) -> None:
    world = world_of_priorities(mode)
    world.cluster.apply_pod(preempted(prioritised("a-low", "a", priority=1)))
    world.cluster.apply_node(make_node("a", {"cpu": "2", "memory": "8Gi", "pods": "10"}, unschedulable=True))
    assert preempt(world, {"b": meta("b-low")}, nominated(SMALL, "a")) == {"b": meta("b-low")}


@pytest.mark.parametrize("mode", ["beside", "replace"])
def test_no_pod_goes_while_a_node_that_was_asked_about_is_not_known_yet(mode: Mode) -> None:
    world = world_of_priorities(mode)
    world.extender.refused.is_kept = True
    proposed = {"b": meta("b-low")}
    asyncio.run(world.filter(SMALL, ["a", "b", "new"]))
    assert preempt(world, proposed, SMALL) == {}
    world.clock.pass_seconds(20)  # it will not come any more
    assert preempt(world, proposed, SMALL) == proposed
    asyncio.run(world.filter(SMALL, ["a", "b", "new"]))
    world.cluster.apply_node(make_node("new", {"cpu": "500m", "memory": "8Gi", "pods": "10"}))
    assert preempt(world, proposed, SMALL) == proposed


def test_pods_that_end_for_another_reason_or_matter_as_much_are_not_waited_for() -> None:
    world = world_of_priorities("replace")
    ending = prioritised("a-low", "a", priority=1)
    ending = structs.replace(
        ending, metadata=structs.replace(ending.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    )
    world.cluster.apply_pod(ending)
    world.cluster.apply_pod(preempted(prioritised("a-high", "a", priority=10)))
    assert preempt(world, {"b": meta("b-low")}, nominated(SMALL, "a")) == {"b": meta("b-low")}

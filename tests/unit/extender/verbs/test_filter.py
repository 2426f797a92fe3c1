import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from extender_service.cluster.state.changes import Change
from extender_service.config.rules import rules_of
from extender_service.extender.modes import Mode
from extender_service.extender.wire.requested_nodes import UNKNOWN_NODE
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.guard import CycleError
from extender_service.framework.interface import Permit, Reserve
from extender_service.framework.status import Code, Status
from extender_service.kube.api_errors import KubeError
from extender_service.kube.types.core import Pod, PodResourceClaim, PodResources, Taint
from extender_service.kube.types.extender_api import ExtenderArgs
from extender_service.scheduling.decision import decide
from extender_service.scheduling.explanation import refusals
from extender_service.testing import Trial
from tests.support.clusters.extender_world import ExtenderWorld, Hold
from tests.support.objects import make_node, make_pod, preempted

WEB = make_pod("web", requests={"cpu": "1"})
NO_ROOM = "Insufficient cpu"


def small_node(name: str, cpu: str = "1", **facts: Any) -> Any:
    return make_node(name, {"cpu": cpu, "memory": "4Gi", "pods": "10"}, **facts)


def run(world: ExtenderWorld, *pods: Pod, names: list[str]) -> list[Any]:
    """The answers to one call after another."""

    async def calls() -> list[Any]:
        return [await world.filter(pod, names) for pod in pods]

    return asyncio.run(calls())


def test_pods_alike_are_decided_about_while_nobody_waits() -> None:
    world = ExtenderWorld(make_node("a"), make_node("b"), mode="replace")

    async def calls() -> None:
        for number in range(5):
            await world.filter(make_pod(f"web-{number}", requests={"cpu": "1"}), ["a", "b"])
            for _ in range(20):
                await asyncio.sleep(0)

    asyncio.run(calls())
    assert [observation.ahead for observation in world.observations] == [False, False, True, True, True]
    chosen = [observation.node_name for observation in world.observations]
    assert {chosen[0], chosen[1]} == {chosen[2], chosen[3]} == {"a", "b"}


NOT_SUPPORTED: dict[str, dict[str, object]] = {
    "resourceClaims": {"resource_claims": (PodResourceClaim("gpu"),)},
    "resources": {"resources": PodResources(requests={"cpu": "2"})},
}
# With these gates, 1.32 judges both.
JUDGES_THEM = rules_of(32, {"DynamicResourceAllocation": True, "PodLevelResources": True})


@pytest.mark.parametrize("field", NOT_SUPPORTED)
def test_a_pod_with_a_field_that_no_plugin_judges_is_refused_in_place_of_kube_scheduler(field: str) -> None:
    world = ExtenderWorld(make_node("a"), make_node("b"), small_node("full", "500m"), mode="replace", rules=JUDGES_THEM)
    pod = structs.replace(WEB, spec=structs.replace(WEB.spec, **NOT_SUPPORTED[field]))
    (answer,) = run(world, pod, names=["full", "a", "new"])
    reason = f"pod has spec.{field}, which kube-scheduler 1.32 judges and extender-service does not"
    assert (answer["NodeNames"], answer["FailedNodes"]) == ([], {})
    assert answer["FailedAndUnresolvableNodes"] == {"full": reason, "a": reason, "new": UNKNOWN_NODE}
    (observation,) = world.observations
    assert observation.grounds is not None
    assert observation.grounds.unknown == 1
    assert refusals(observation.grounds) == ({reason: 2}, {})
    assert not observation.looked_again  # no change of the cluster can help
    assert world.expected_on(pod) is None


@pytest.mark.parametrize("field", NOT_SUPPORTED)
def test_beside_kube_scheduler_its_own_plugins_judge_that_field(field: str, caplog: pytest.LogCaptureFixture) -> None:
    world = ExtenderWorld(make_node("a"), small_node("full", "500m"), rules=JUDGES_THEM)
    pod = structs.replace(WEB, spec=structs.replace(WEB.spec, **NOT_SUPPORTED[field]))
    answers = run(world, pod, pod, names=["full", "a"])
    assert [(answer["NodeNames"], answer["FailedNodes"]) for answer in answers] == 2 * [(["a"], {"full": NO_ROOM})]
    assert [vars(record)["field"] for record in caplog.records if "field" in vars(record)] == [f"spec.{field}"]


# Beside kube-scheduler's own plugins.


def test_every_node_that_does_not_pass_is_listed_with_the_reasons_of_kube_scheduler() -> None:
    world = ExtenderWorld(
        make_node("fits"),
        small_node("full"),
        make_node("cordoned", unschedulable=True),
        make_node("tainted", taints=[Taint("gpu", "yes", "NoSchedule")]),
        make_node("other-port"),
        is_live=False,
    )
    world.cluster.apply_pod(make_pod("one", "full", requests={"cpu": "500m", "memory": "4Gi"}))
    world.cluster.apply_pod(make_pod("two", "other-port", ports=[80]))
    pod = make_pod("web", requests={"cpu": "1", "memory": "1Gi"}, ports=[80])
    (answer,) = run(world, pod, names=["tainted", "full", "fits", "cordoned", "other-port"])
    assert answer == {
        "Nodes": None,
        "NodeNames": ["fits"],
        "FailedNodes": {
            "full": "Insufficient cpu, Insufficient memory",
            "other-port": "node(s) didn't have free ports for the requested pod ports",
        },
        "FailedAndUnresolvableNodes": {
            "cordoned": "node(s) were unschedulable",
            "tainted": "node(s) had untolerated taint {gpu: yes}",
        },
        "Error": "",
    }
    (observation,) = world.observations
    assert (observation.verb, observation.pod, observation.asked, observation.passed) == ("filter", "default/web", 5, 1)
    assert observation.grounds is not None
    assert refusals(observation.grounds).reasons == {
        "Insufficient cpu": 1,
        "Insufficient memory": 1,
        "node(s) didn't have free ports for the requested pod ports": 1,
        "node(s) were unschedulable": 1,
        "node(s) had untolerated taint {gpu: yes}": 1,
    }


@pytest.mark.parametrize("others", [0, 40])
def test_nodes_that_pass_are_named_in_the_order_of_the_request_and_no_others(others: int) -> None:
    world = ExtenderWorld(*(make_node(name) for name in "abcde"), *(make_node(f"other-{n}") for n in range(others)))
    assert run(world, WEB, names=["d", "a", "e"])[0]["NodeNames"] == ["d", "a", "e"]


@pytest.mark.parametrize("others", [0, 40])
def test_unknown_nodes_are_reported(others: int) -> None:
    world = ExtenderWorld(make_node("a"), *(make_node(f"other-{n}") for n in range(others)), is_live=False)
    (answer,) = run(world, WEB, names=["new", "a", "gone"])
    assert answer["NodeNames"] == ["a"]
    assert answer["FailedAndUnresolvableNodes"] == {"new": UNKNOWN_NODE, "gone": UNKNOWN_NODE}
    grounds = world.observations[0].grounds
    assert grounds is not None
    assert grounds.unknown == 2


def test_a_node_that_is_gone_while_its_pods_stay_is_unknown() -> None:
    world = ExtenderWorld(make_node("a"), is_live=False)
    world.cluster.apply_pod(make_pod("one", "a"))
    world.cluster.remove_node("a")
    (answer,) = run(world, WEB, names=["a"])
    assert answer["FailedAndUnresolvableNodes"] == {"a": UNKNOWN_NODE}


def test_no_nodes_asked_for_no_nodes_answered() -> None:
    world = ExtenderWorld(make_node("a"))
    (answer,) = run(world, WEB, names=[])
    assert (answer["NodeNames"], answer["FailedNodes"], answer["FailedAndUnresolvableNodes"]) == ([], {}, {})


@pytest.mark.parametrize("others", [0, 6, 40])
def test_a_pod_that_contradicts_itself_is_refused_everywhere(others: int) -> None:
    """PreFilter refuses the pod as a whole, whether few or all of the known nodes are asked for."""
    world = ExtenderWorld(make_node("a"), make_node("b"), *(make_node(f"o{n}") for n in range(others)), is_live=False)
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in ("a", "b")]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    body = {"Pod": {"metadata": {"name": "web"}, "spec": {"affinity": affinity}}, "NodeNames": ["a", "x", "y", "z"]}
    answer = asyncio.run(world.call("filter", body))
    assert answer["FailedAndUnresolvableNodes"]["a"] == "pod affinity terms conflict"
    assert answer["Error"] == ""


def test_a_plugin_that_fails_ends_the_call_with_kube_schedulers_words() -> None:
    world = ExtenderWorld(make_node("a"))
    body = {"Pod": {"spec": {"containers": [{"resources": {"requests": {"cpu": "10%"}}}]}}, "NodeNames": ["a"]}
    answer = asyncio.run(world.call("filter", body))
    assert answer["Error"].startswith('running PreFilter plugin "NodeResourcesFit": ')
    assert "10(percent)" in answer["Error"]
    assert (answer["NodeNames"], answer["FailedNodes"]) == (None, {})


# In place of kube-scheduler's plugins.


def test_one_node_is_chosen_and_it_is_one_of_the_best() -> None:
    world = ExtenderWorld(small_node("small", "2"), small_node("large", "8"), small_node("medium", "4"), mode="replace")
    (answer,) = run(world, WEB, names=["small", "large", "medium"])
    assert answer == {
        "Nodes": None,
        "NodeNames": ["large"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }
    (observation,) = world.observations
    assert (observation.asked, observation.passed, observation.node_name) == (3, 3, "large")


def test_equal_nodes_are_all_chosen_sooner_or_later_and_worse_ones_never() -> None:
    names = ["a", "worse", "b", "c"]
    world = ExtenderWorld(
        *(small_node(name, "2" if name == "worse" else "8") for name in names), mode="replace", is_live=False
    )
    chosen = Counter(answer["NodeNames"][0] for answer in run(world, *[WEB] * 150, names=names))
    assert set(chosen) == {"a", "b", "c"}


def test_the_only_node_that_fits_is_chosen_without_a_word_about_the_others() -> None:
    world = ExtenderWorld(small_node("full", "500m"), small_node("fits", "2"), mode="replace")
    (answer,) = run(world, WEB, names=["full", "fits", "unknown"])
    assert (answer["NodeNames"], answer["FailedNodes"], answer["FailedAndUnresolvableNodes"]) == (["fits"], {}, {})


def test_where_no_node_fits_all_are_listed() -> None:
    world = ExtenderWorld(small_node("full", "500m"), mode="replace", is_live=False)
    (answer,) = run(world, WEB, names=["full", "unknown"])
    assert answer["NodeNames"] == []
    assert answer["FailedNodes"] == {"full": NO_ROOM}
    assert answer["FailedAndUnresolvableNodes"] == {"unknown": UNKNOWN_NODE}


# Nodes that come whole.


def whole(name: str, cpu: str = "4", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": more.pop("labels", {}), "resourceVersion": more.pop("version", "")}
    return {
        "metadata": metadata,
        "spec": more,
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}},
    }


def filter_whole(world: ExtenderWorld, pod: Pod, *nodes: dict[str, Any]) -> Any:
    return asyncio.run(world.call("filter", {"Pod": pod, "Nodes": {"items": list(nodes)}}))


def test_whole_nodes_are_taken_at_their_word_and_the_cache_is_not_touched() -> None:
    names = ("shrunk", "grown", "tainted", "freed", "cordoned")
    world = ExtenderWorld(*(small_node(name, "4" if name != "grown" else "500m") for name in names), is_live=False)
    world.cluster.apply_node(make_node("freed", taints=[Taint("busy", "", "NoExecute")]))
    answer = filter_whole(
        world,
        WEB,
        whole("new"),
        whole("shrunk", "500m"),
        whole("grown", "4"),
        whole("tainted", taints=[{"key": "busy", "effect": "NoSchedule"}]),
        whole("freed"),
        whole("cordoned", unschedulable=True),
    )
    assert [node["metadata"]["name"] for node in answer["Nodes"]["items"]] == ["new", "grown", "freed"]
    assert answer["NodeNames"] is None
    assert answer["FailedNodes"] == {"shrunk": NO_ROOM}
    assert set(answer["FailedAndUnresolvableNodes"]) == {"tainted", "cordoned"}
    (by_name,) = run(world, WEB, names=[*names, "new"])
    assert by_name["NodeNames"] == ["shrunk", "tainted", "cordoned"]
    assert by_name["FailedNodes"] == {"grown": NO_ROOM}
    assert by_name["FailedAndUnresolvableNodes"] == {
        "freed": "node(s) had untolerated taint {busy: }",
        "new": UNKNOWN_NODE,
    }


def test_labels_of_whole_nodes_count() -> None:
    world = ExtenderWorld(make_node("a", labels={"disk": "ssd"}), make_node("b"), is_live=False)
    spec = {"nodeSelector": {"disk": "ssd"}}
    body: dict[str, Any] = {"Pod": {"spec": spec}, "Nodes": {"items": [whole("a"), whole("b", labels={"disk": "ssd"})]}}
    answer = asyncio.run(world.call("filter", body))
    assert [node["metadata"]["name"] for node in answer["Nodes"]["items"]] == ["b"]
    assert answer["FailedAndUnresolvableNodes"] == {"a": "node(s) didn't match Pod's node affinity/selector"}


def test_pods_on_a_node_count_also_when_the_node_comes_whole() -> None:
    world = ExtenderWorld(small_node("a", "2"), is_live=False)
    world.cluster.apply_pod(make_pod("one", "a", requests={"cpu": "1500m"}))
    answer = filter_whole(world, WEB, whole("a", "2"), whole("b", "2"))
    assert answer["FailedNodes"] == {"a": NO_ROOM}


def test_a_whole_node_of_the_cached_version_is_not_read_again() -> None:
    world = ExtenderWorld(make_node("a", resource_version="7"), is_live=False)
    assert filter_whole(world, WEB, whole("a", "0", version="7"))["FailedNodes"] == {}
    assert filter_whole(world, WEB, whole("a", "0", version="8"))["FailedNodes"] == {"a": NO_ROOM}


@pytest.mark.parametrize("mode", ["beside", "replace"])
@pytest.mark.parametrize("field", ["Nodes", "nodes"])
def test_whole_nodes_are_sent_back_byte_for_byte(mode: Any, field: str) -> None:
    world = ExtenderWorld(mode=mode, is_live=False)
    node = (
        '{ "status":{"allocatable":{"cpu":"4","pods":"5"}, "odd":[1.50,  1e3,"\\u00e9"]},\n "metadata":{"name":"a"},'
        '"kind":"Node"}'
    )
    body = f'{{"Pod":{{"metadata":{{"name":"web"}}}},"{field}":{{"items":[{node}]}},"NodeNames":null}}'
    answer = asyncio.run(world.post("filter", body.encode()))
    assert f'"Nodes":{{"items":[{node}]}}' in answer.text


def test_an_empty_list_of_whole_nodes_is_answered_in_kind() -> None:
    body: dict[str, Any] = {"Pod": {}, "Nodes": {"metadata": {}, "items": None}, "NodeNames": None}
    answer = asyncio.run(ExtenderWorld(is_live=False).call("filter", body))
    assert (answer["Nodes"], answer["NodeNames"]) == ({"items": []}, None)


# Expected placements.


def test_a_chosen_pod_counts_from_then_on() -> None:
    world = ExtenderWorld(small_node("a"), small_node("b"), mode="replace")
    first, second, third = (make_pod(name, requests={"cpu": "1"}) for name in ("one", "two", "three"))
    answers = run(world, first, second, third, names=["a", "b"])
    assert {tuple(answer["NodeNames"]) for answer in answers[:2]} == {("a",), ("b",)}
    assert answers[2]["FailedNodes"] == {"a": NO_ROOM, "b": NO_ROOM}


def test_a_pod_that_is_asked_about_again_counts_once() -> None:
    world = ExtenderWorld(small_node("a"), small_node("b"), mode="replace")
    for answer in run(world, *[WEB] * 20, names=["a", "b"]):
        assert world.cpu_milli("a") + world.cpu_milli("b") == 1000
        assert answer["NodeNames"] in (["a"], ["b"])
    assert len(world.cluster.placements) == 1


def test_a_pod_that_fits_nowhere_any_more_is_not_expected_any_more() -> None:
    world = ExtenderWorld(small_node("a"), mode="replace")
    run(world, WEB, names=["a"])
    assert world.expected_on(WEB) == "a"
    run(world, WEB, names=["elsewhere"])
    assert world.expected_on(WEB) is None
    assert world.cpu_milli("a") == 0


def test_a_pod_that_the_watch_does_not_know_for_five_seconds_leaves_no_trace() -> None:
    world = ExtenderWorld(small_node("a"), mode="replace")
    other = make_pod("other", requests={"cpu": "1"})
    run(world, WEB, names=["a"])
    world.clock.pass_seconds(4.9)
    assert run(world, other, names=["a"])[0]["NodeNames"] == []
    world.clock.pass_seconds(0.1)
    assert run(world, other, names=["a"])[0]["NodeNames"] == ["a"]
    assert world.expected_on(WEB) is None


def test_a_pod_that_is_bound_already_counts_once_whoever_asks_about_it() -> None:
    world = ExtenderWorld(small_node("a", "4"), mode="replace")
    world.cluster.apply_pod(make_pod("web", "a", requests={"cpu": "1"}))
    run(world, make_pod("web", requests={"cpu": "1"}), names=["a"])
    assert world.cpu_milli("a") == 1000


def test_a_pod_that_the_watch_knows_stays_expected() -> None:
    world = ExtenderWorld(small_node("a"), mode="replace")
    world.cluster.apply_pod(WEB)
    run(world, WEB, names=["a"])
    world.clock.pass_seconds(590)
    world.extender.expectations.expire()
    assert world.expected_on(WEB) == "a"
    world.clock.pass_seconds(10)
    world.extender.expectations.expire()
    assert world.expected_on(WEB) is None


@pytest.mark.parametrize("settled_by", ["bound there", "bound elsewhere", "deleted", "ended"])
def test_the_watch_has_the_last_word(settled_by: str) -> None:
    world = ExtenderWorld(small_node("a"), small_node("b"), mode="replace")
    world.cluster.apply_pod(WEB)
    run(world, WEB, names=["a"])
    match settled_by:
        case "bound there":
            world.cluster.apply_pod(make_pod("web", "a", requests={"cpu": "1"}))
        case "bound elsewhere":
            world.cluster.apply_pod(make_pod("web", "b", requests={"cpu": "1"}))
        case "deleted":
            world.cluster.remove_pod(("default", "web"))
        case "ended":
            world.cluster.apply_pod(make_pod("web", phase="Failed", requests={"cpu": "1"}))
    assert world.expected_on(WEB) is None
    counted = {"bound there": (1000, 0), "bound elsewhere": (0, 1000)}.get(settled_by, (0, 0))
    assert (world.cpu_milli("a"), world.cpu_milli("b")) == counted


def test_nothing_is_expected_for_a_caller_that_hung_up() -> None:
    world = ExtenderWorld(small_node("a"), mode="replace")

    args = ExtenderArgs(WEB, node_names=["a"])
    asyncio.run(world.extender.filter(WEB, args, lambda: True))
    assert world.expected_on(WEB) is None


def test_nothing_is_expected_for_a_call_that_comes_after_the_end_of_its_pod() -> None:
    world = ExtenderWorld(small_node("a"), mode="replace")
    pod = structs.replace(WEB, metadata=structs.replace(WEB.metadata, resource_version="100"))
    world.cluster.apply_pod(pod)
    world.cluster.remove_pod(("default", "web"))
    world.pods_version = "101"
    (answer,) = run(world, pod, names=["a"])
    assert answer["NodeNames"] == ["a"]
    assert world.expected_on(pod) is None


def scheduled_by(name: str, pod: Pod, **spec: Any) -> Pod:
    return structs.replace(pod, spec=structs.replace(pod.spec, scheduler_name=name, **spec))


@pytest.mark.parametrize("mode", ["beside", "replace"])
def test_room_that_preemption_made_is_kept_for_a_pod_of_a_scheduler_without_a_profile(mode: Mode) -> None:
    """No --config, and the pods name another scheduler: the default profile decides about them."""
    world = ExtenderWorld(small_node("a"), mode=mode)
    world.cluster.apply_pod(scheduled_by("own", make_pod("urgent", nominated="a", requests={"cpu": "1"}), priority=1))
    low = scheduled_by("own", WEB)
    (answer,) = run(world, low, names=["a"])
    assert (answer["NodeNames"], answer["FailedNodes"]) == ([], {"a": NO_ROOM})


def test_nominated_pods_of_a_scheduler_that_never_asks_do_not_count() -> None:
    world = ExtenderWorld(small_node("a"))
    world.cluster.apply_pod(scheduled_by("foreign", make_pod("urgent", nominated="a", requests={"cpu": "1"})))
    assert run(world, scheduled_by("own", WEB), names=["a"])[0]["NodeNames"] == ["a"]


def test_calls_at_the_same_time_are_not_given_the_same_room() -> None:
    world = ExtenderWorld(small_node("a"), mode="replace")
    pods = [make_pod(name, requests={"cpu": "1"}) for name in ("one", "two")]

    async def calls() -> list[int]:
        answers = await asyncio.gather(*(world.filter(pod, ["a"]) for pod in pods))
        return [len(answer["NodeNames"] or ()) for answer in answers]

    assert sorted(asyncio.run(calls())) == [0, 1]
    assert world.cpu_milli("a") == 1000


@pytest.mark.parametrize(("mode", "is_live"), [("replace", False), ("beside", True), ("beside", False)])
def test_nothing_is_expected_on_a_cluster_file_nor_beside_kube_scheduler(mode: Any, is_live: bool) -> None:
    world = ExtenderWorld(small_node("a"), mode=mode, is_live=is_live)
    assert run(world, WEB, names=["a"])[0]["NodeNames"] == ["a"]
    assert world.expected_on(WEB) is None


# A second look before every node is refused.


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls wait for longer than any machine is busy."""
    monkeypatch.setattr("extender_service.extender.second_look.PATIENCE_SECONDS", 10.0)
    monkeypatch.setattr("extender_service.extender.second_look.SAVED_SECONDS", 10.0)


def look_again(world: ExtenderWorld, pod: Pod, names: list[str], meanwhile: Callable[[], None]) -> Any:
    """Ask about a pod; while the call waits, something happens."""

    async def calls() -> Any:
        call = asyncio.create_task(world.filter(pod, names))
        while not world.cluster.changes._waiting:
            await asyncio.sleep(0)
        meanwhile()
        return await call

    return asyncio.run(calls())


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("mode", ["beside", "replace"])
def test_a_helpful_event_is_waited_for(mode: Any) -> None:
    world = ExtenderWorld(small_node("a"), mode=mode)
    world.cluster.apply_pod(make_pod("old", "a", requests={"cpu": "1"}))
    answer = look_again(world, WEB, ["a"], lambda: world.cluster.remove_pod(("default", "old")))
    assert answer["NodeNames"] == ["a"]
    assert world.observations[0].looked_again


@pytest.mark.usefixtures("patient")
def test_a_node_that_is_not_known_yet_is_waited_for() -> None:
    world = ExtenderWorld(small_node("a", "500m"))
    answer = look_again(world, WEB, ["a", "new"], lambda: world.cluster.apply_node(small_node("new")))
    assert answer["NodeNames"] == ["new"]


def test_after_the_wait_the_refusal_is_that_of_the_second_look() -> None:
    world = ExtenderWorld(small_node("a", "500m"))
    cordoned = small_node("a", "500m", unschedulable=True)
    answer = look_again(world, WEB, ["a"], lambda: world.cluster.apply_node(cordoned))
    assert (answer["FailedNodes"], answer["FailedAndUnresolvableNodes"]) == ({}, {"a": "node(s) were unschedulable"})
    assert world.observations[0].looked_again


class Wakes:
    """Counts how often a decision is made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.decisions = 0

        def counting(*args: Any, **options: Any) -> Any:
            self.decisions += 1
            return decide(*args, **options)

        monkeypatch.setattr("extender_service.scheduling.reuse.runs.decide", counting)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("event", [Change.POD_REMOVED, Change.NODE_UPDATED, Change.NODE_ADDED])
def test_what_can_help_where_there_is_no_room(event: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    world = ExtenderWorld(small_node("a", "500m"))
    wakes = Wakes(monkeypatch)

    def happens() -> None:
        world.cluster.nodes.apply(small_node("a"))  # of which nobody is told
        world.cluster.changes.notify(event, ("", "x"))

    assert look_again(world, WEB, ["a"], happens)["NodeNames"] == ["a"]
    assert wakes.decisions == 2


def test_pods_that_come_do_not_help_where_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ExtenderWorld(small_node("a", "500m"))
    wakes = Wakes(monkeypatch)
    look_again(world, WEB, ["a"], lambda: world.cluster.changes.notify(Change.POD_ADDED, ("default", "x")))
    assert wakes.decisions == 1


def test_pods_that_go_do_not_help_where_the_node_is_tainted(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ExtenderWorld(small_node("a", taints=[Taint("busy", "", "NoSchedule")]))
    wakes = Wakes(monkeypatch)
    look_again(world, WEB, ["a"], lambda: world.cluster.changes.notify(Change.POD_REMOVED, ("default", "x")))
    assert wakes.decisions == 1


def test_no_call_waits_once_the_budget_is_spent() -> None:
    world = ExtenderWorld(small_node("a", "500m"))
    second_look = world.extender.filter._second_look
    assert second_look is not None
    second_look._budget.spend(0.24)
    run(world, WEB, names=["a"])
    assert not world.observations[-1].looked_again
    world.clock.pass_seconds(0.4)  # earns 20 ms: 30 ms are left
    run(world, WEB, names=["a"])
    assert world.observations[-1].looked_again


def test_waiting_is_paid_for_by_the_clock() -> None:
    world = ExtenderWorld(small_node("a", "500m"))
    look_again(world, WEB, ["a"], lambda: world.clock.pass_seconds(0.2))
    run(world, WEB, names=["a"])
    assert [observation.looked_again for observation in world.observations] == [True, True]
    # What the long wait cost is earned back at 5% of wall time.
    look_again(world, WEB, ["a"], lambda: world.clock.pass_seconds(1.5))
    run(world, WEB, names=["a"])
    assert [observation.looked_again for observation in world.observations[2:]] == [True, False]


@pytest.mark.usefixtures("patient")
def test_a_call_that_names_only_the_nominated_node_waits_for_its_room() -> None:
    """Its victim has ended, as kube-scheduler has seen: otherwise, it would preempt elsewhere next."""
    world = ExtenderWorld(small_node("a"), small_node("b"))
    world.cluster.apply_pod(preempted(make_pod("old", "a", requests={"cpu": "1"})))
    nominated = make_pod("web", requests={"cpu": "1"}, nominated="a")
    answer = look_again(world, nominated, ["a"], lambda: world.cluster.remove_pod(("default", "old")))
    assert answer["NodeNames"] == ["a"]


def test_nothing_is_waited_for_on_a_cluster_file() -> None:
    world = ExtenderWorld(small_node("a", "500m"), is_live=False)
    run(world, WEB, names=["a"])
    assert not world.observations[-1].looked_again


def test_a_pod_that_fits_somewhere_does_not_wait() -> None:
    world = ExtenderWorld(small_node("a", "500m"), small_node("b"))
    run(world, WEB, names=["a", "b"])
    assert not world.observations[-1].looked_again


@pytest.mark.usefixtures("patient")
def test_a_call_that_waited_does_not_take_back_what_was_answered_since() -> None:
    """kube-scheduler asks about a pod once at a time: it has given up the call that waits."""
    world = ExtenderWorld(small_node("a", "500m"), small_node("b"), mode="replace")

    async def calls() -> str:
        waiting = asyncio.create_task(world.filter(WEB, ["a"]))
        while not world.cluster.changes._waiting:
            await asyncio.sleep(0)
        assert (await world.filter(WEB, ["b"]))["NodeNames"] == ["b"]
        world.cluster.apply_node(small_node("a"))
        return str((await waiting)["Error"])

    assert asyncio.run(calls()) == "pod default/web was asked about again in the meantime"
    assert (world.expected_on(WEB), world.cpu_milli("a"), world.cpu_milli("b")) == ("b", 0, 1000)


# While the pod is being bound.


def test_a_pod_that_is_about_to_be_bound_is_not_expected_elsewhere() -> None:
    """Bind reads a pod that nobody expects before it counts."""
    world = ExtenderWorld(small_node("a"), small_node("b"), mode="replace")
    world.pods.put(WEB)
    world.pods.read_hold = Hold()

    async def calls() -> str:
        assert world.pods.read_hold is not None
        binding = asyncio.create_task(world.bind(WEB, "a"))
        await world.pods.read_hold.arrived.wait()
        told = str((await world.filter(WEB, ["b"]))["Error"])
        world.pods.read_hold.go_on.set()
        assert await binding == ""
        return told

    assert asyncio.run(calls()) == "pod default/web is being bound to a"
    assert (world.expected_on(WEB), world.cpu_milli("b")) == ("a", 0)


async def begin_binding(world: ExtenderWorld, pod: Pod, node_name: str) -> tuple["asyncio.Task[str]", Hold]:
    """A binding that has reached the API server, and waits there."""
    world.pods.put(pod)
    world.cluster.apply_pod(pod)
    world.pods.hold = Hold()
    binding = asyncio.create_task(world.bind(pod, node_name))
    await world.pods.hold.arrived.wait()
    return binding, world.pods.hold


@pytest.mark.parametrize("mode", ["beside", "replace"])
def test_a_pod_that_is_being_bound_goes_to_that_node(mode: Any) -> None:
    world = ExtenderWorld(small_node("small", "1"), small_node("large", "8"), mode=mode)

    async def calls() -> None:
        binding, hold = await begin_binding(world, WEB, "small")
        answer = await world.filter(WEB, ["large", "small"])
        assert (answer["NodeNames"], answer["FailedNodes"]) == (["small"], {})
        whole_nodes = {"Pod": WEB, "Nodes": {"items": [whole("large"), whole("small")]}}
        answer = await world.call("filter", whole_nodes)
        assert [node["metadata"]["name"] for node in answer["Nodes"]["items"]] == ["small"]
        hold.go_on.set()
        assert await binding == ""

    asyncio.run(calls())
    assert world.expected_on(WEB) == "small"


def test_where_that_node_is_not_asked_for_a_bound_pod_is_reported() -> None:
    world = ExtenderWorld(small_node("small", "1"), small_node("large", "8"), mode="replace")

    async def calls() -> str:
        _, hold = await begin_binding(world, WEB, "small")
        call = asyncio.create_task(world.filter(WEB, ["large"]))
        await asyncio.sleep(0)
        hold.go_on.set()
        return str((await call)["Error"])

    assert asyncio.run(calls()) == "pod default/web is already bound to small"


def test_where_that_node_is_not_asked_for_a_failed_binding_is_forgotten_first() -> None:
    world = ExtenderWorld(small_node("small", "1"), small_node("large", "8"), mode="replace")

    async def calls() -> Any:
        binding, hold = await begin_binding(world, WEB, "small")
        call = asyncio.create_task(world.filter(WEB, ["large"]))
        await asyncio.sleep(0)
        world.pods.pods.clear()  # the bind that is held will find no pod
        hold.go_on.set()
        assert "not found" in await binding
        return await call

    assert asyncio.run(calls())["NodeNames"] == ["large"]
    assert world.expected_on(WEB) == "large"
    assert world.cpu_milli("small") == 0


def test_where_that_node_is_not_asked_for_a_slow_binding_holds_up_no_other_pod() -> None:
    world = ExtenderWorld(small_node("small", "1"), small_node("large", "8"), mode="replace")

    async def calls() -> str:
        binding, hold = await begin_binding(world, WEB, "small")
        error = str((await world.filter(WEB, ["large"]))["Error"])
        hold.go_on.set()
        assert await binding == ""
        return error

    assert asyncio.run(calls()) == "pod default/web is being bound to small"
    assert (world.expected_on(WEB), world.cpu_milli("large")) == ("small", 0)


def test_a_pod_that_the_watch_shows_bound_before_the_binding_is_answered_is_not_decided_about() -> None:
    world = ExtenderWorld(small_node("small", "1"), small_node("large", "8"), mode="replace")

    async def calls() -> str:
        binding, hold = await begin_binding(world, WEB, "small")
        world.cluster.apply_pod(world.pods.put(WEB, "small"))
        error = str((await world.filter(WEB, ["small", "large"]))["Error"])
        hold.go_on.set()
        assert await binding == ""
        return error

    assert asyncio.run(calls()) == "pod default/web is being bound to small"


def test_where_that_node_is_not_asked_for_a_slow_read_holds_up_no_other_pod() -> None:
    """The answer to the binding was lost, and the API server is slow to say what became of the pod."""
    world = ExtenderWorld(small_node("small", "1"), small_node("large", "8"), mode="replace")
    world.pods.bind_errors = [KubeError("the answer was lost")]

    async def calls() -> str:
        binding, hold = await begin_binding(world, WEB, "small")
        world.pods.read_errors = [KubeError("the API server is busy")]
        hold.go_on.set()
        assert "the answer was lost" in await binding
        world.pods.read_hold = Hold()
        return str((await world.filter(WEB, ["large"]))["Error"])

    assert asyncio.run(calls()) == "pod default/web may be bound already to small"
    assert world.expected_on(WEB) == "small"


class Patient(Reserve, Permit):
    """Makes pods wait for a minute, and notes what is reserved."""

    name = "Patient"

    def __init__(self) -> None:
        super().__init__(None, Trial().handle)
        self.reserved: list[str] = []

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.reserved.append(node_name)

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.reserved.remove(node_name)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        return Status(Code.WAIT), 60.0


def test_where_that_node_is_not_asked_for_a_binding_that_waits_is_undone() -> None:
    plugin = Patient()
    plugins = {"reserve": [(plugin, 1)], "permit": [(plugin, 1)]}
    world = ExtenderWorld(small_node("small", "1"), small_node("large", "8"), mode="replace", plugins=plugins)
    world.pods.put(WEB)
    world.cluster.apply_pod(WEB)

    async def calls() -> tuple[str, Any]:
        await world.filter(WEB, ["small"])
        binding = asyncio.create_task(world.bind(WEB, "small"))
        while not len(world.profile.waiting_pods):
            await asyncio.sleep(0)
        answer = await world.filter(WEB, ["large"])
        return await binding, answer

    error, answer = asyncio.run(calls())

    assert error == "binding default/web to small: the pod was asked about on other nodes"
    assert answer["NodeNames"] == ["large"]
    assert (world.expected_on(WEB), plugin.reserved) == ("large", ["large"])
    assert world.pods.bound == []


def test_cycle_errors_are_raised_to_callers_in_the_process() -> None:
    world = ExtenderWorld(make_node("a"))
    pod = make_pod("web", requests={"cpu": "many"})
    args = ExtenderArgs(pod, node_names=["a"])
    with pytest.raises(CycleError, match="NodeResourcesFit"):
        asyncio.run(world.extender.filter(pod, args, lambda: False))


@pytest.mark.parametrize(
    ("mode", "is_live", "warnings"), [("beside", True, 1), ("replace", True, 0), ("beside", False, 0)]
)
def test_whole_nodes_beside_kube_scheduler_are_warned_of_once(
    mode: Mode, is_live: bool, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    world = ExtenderWorld(mode=mode, is_live=is_live)
    for _ in range(3):
        asyncio.run(world.call("filter", {"Pod": WEB, "Nodes": {"items": []}}))
    assert sum("nodeCacheCapable" in record.message for record in caplog.records) == warnings

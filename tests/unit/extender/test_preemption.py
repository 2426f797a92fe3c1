"""Preemption by the service itself: whom it evicts, when it does not, and what follows if a write fails."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import structs
from prometheus_client import CollectorRegistry

from extender_service.config.rules import DEFAULT_RULES, Rules, rules_of
from extender_service.extender.preemption import PreemptionWork
from extender_service.kube.api_errors import ApiError, ApiStatus, KubeError
from extender_service.kube.types.core import Node, Pod, PodResourceClaim
from extender_service.observability.preemption_metrics import PreemptionMetrics
from extender_service.scheduling.eviction import Evictions
from extender_service.scheduling.pod_writes import PodWrites
from tests.support.clusters.extender_world import ExtenderWorld
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod, preempted
from tests.support.storage_objects import with_claims

NAMES = ["a", "b"]
Written = list[tuple[str, str, str | None]]


class Api:
    """Takes writes about pods, each after a step of the event loop, and once the gate is open. Those about `slow` pods
    wait for an event of their own."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.written: Written = []
        self.error: KubeError | None = None
        self.read_gate = asyncio.Event()
        self.read_gate.set()
        self.slow: dict[str, asyncio.Event] = {}
        self.refused_verb = ""
        self.pods: dict[str, Pod] = {}

    async def get_pod(self, namespace: str, name: str) -> Pod | None:
        await self.read_gate.wait()
        return self.pods.get(name)

    async def patch_pod_status(self, namespace: str, name: str, patch: Mapping[str, Any]) -> str:
        status = patch["status"]
        is_nomination = "nominatedNodeName" in status
        await self._write("nominate" if is_nomination else "mark", name, status.get("nominatedNodeName"))
        return ""

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        await self._write("delete", name, None)

    async def _write(self, verb: str, name: str, value: str | None) -> None:
        await self.gate.wait()
        if name in self.slow:
            await self.slow[name].wait()
        if verb == self.refused_verb and self.error is not None:
            raise self.error
        self.written.append((verb, name, value))


class PreemptingWorld(ExtenderWorld):
    """A service that preempts by itself, on small nodes."""

    def __init__(self, *nodes: Node, rules: Rules = DEFAULT_RULES) -> None:
        super().__init__(*(nodes or (small_node("a"), small_node("b"))), mode="replace", rules=rules)
        self.api = Api()
        self.registry = CollectorRegistry()
        writes = PodWrites(self.api, no_sleep)
        evictions = Evictions(self.engine, self.handle.preemptions, writes, self.events.append, lambda: 1_800_000_000.0)
        metrics = PreemptionMetrics(self.registry, self.clock, self.cluster.rules)
        self.extender.preempt_by(PreemptionWork(self.api, writes, evictions, metrics))
        self.extender.refused.is_kept = True

    async def refuse(self, pod: Pod, names: list[str] | None = None) -> Any:
        """Have a pod asked about, which no node takes; then let the writes go on as far as they can."""
        answer = await self.filter(pod, NAMES if names is None else names)
        assert answer["NodeNames"] == []
        await turns()
        return answer

    def show(self, *pods: Pod) -> None:
        for pod in pods:
            self.cluster.apply_pod(pod)
            self.api.pods[pod.metadata.name] = pod

    def count(self, name: str) -> float:
        value = self.registry.get_sample_value(name)
        assert value is not None
        return value


async def no_sleep(seconds: float) -> None:
    await asyncio.sleep(0)


async def turns() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


def small_node(name: str) -> Node:
    return make_node(name, {"cpu": "1", "memory": "4Gi", "pods": "10"})


def with_priority(pod: Pod, priority: int, policy: str = "") -> Pod:
    spec = structs.replace(pod.spec, priority=priority, preemption_policy=policy, scheduler_name="default-scheduler")
    return structs.replace(pod, spec=spec)


def filler(node_name: str, priority: int = 0) -> Pod:
    return with_priority(make_pod(f"on-{node_name}", node_name, requests={"cpu": "1"}), priority)


def important(name: str = "important", priority: int = 100, policy: str = "") -> Pod:
    return with_priority(make_pod(name, requests={"cpu": "1"}), priority, policy)


def nominated(pod: Pod, node_name: str) -> Pod:
    return structs.replace(pod, status=structs.replace(pod.status, nominated_node_name=node_name))


def full_world() -> tuple[PreemptingWorld, Pod]:
    """A world in which an important pod gets room on a, since the pod on b matters more."""
    world, pod = PreemptingWorld(), important()
    world.show(filler("a"), filler("b", priority=50), pod)
    return world, pod


async def world_with_an_expected_pod() -> tuple[PreemptingWorld, Pod, Pod]:
    """The same, where a pod of low priority is expected on a and not bound yet."""
    world, pod = full_world()
    world.cluster.remove_pod(("default", "on-a"))
    expected = important("expected", priority=1)
    world.show(expected)
    world.pods.put(expected)
    assert (await world.filter(expected, NAMES))["NodeNames"] == ["a"]
    return world, pod, expected


ROOM_ON_A: Written = [("nominate", "important", "a"), ("mark", "on-a", None), ("delete", "on-a", None)]


@in_event_loop
async def test_a_refused_pod_is_nominated_before_its_victims_are_evicted() -> None:
    world, pod = full_world()

    answer = await world.refuse(pod)

    assert set(answer["FailedNodes"].values()) == {"Insufficient cpu"}
    assert world.api.written == ROOM_ON_A
    assert [(event.reason, event.regarding.name) for event in world.events] == [("Preempted", "on-a")]
    assert world.count("scheduler_preemption_attempts_total") == 1
    assert world.count("scheduler_preemption_victims_sum") == 1


@in_event_loop
async def test_the_answer_does_not_wait_for_writes_and_no_other_call_does() -> None:
    world, pod = full_world()
    world.api.gate.clear()

    await world.refuse(pod)
    answer = await world.filter(with_priority(make_pod("small"), 0), NAMES)

    assert len(answer["NodeNames"]) == 1
    assert world.api.written == []
    world.api.gate.set()
    await turns()
    assert world.api.written == ROOM_ON_A


@in_event_loop
async def test_a_pod_that_is_asked_about_again_gets_no_more_victims_while_room_is_coming() -> None:
    world, pod = full_world()
    world.api.gate.clear()
    await world.refuse(pod)
    await world.refuse(pod)  # the caller's retry, while nothing is written
    world.api.gate.set()
    await turns()
    await world.refuse(pod)  # our watch does not show yet what was written
    world.show(nominated(pod, "a"), preempted(filler("a")))
    await world.refuse(nominated(pod, "a"), ["a"])
    await world.refuse(nominated(pod, "a"))
    world.show(pod)
    await world.refuse(pod)  # kube-scheduler has taken the nomination back

    assert world.api.written == ROOM_ON_A


@in_event_loop
async def test_a_pod_is_placed_on_its_nominated_node_once_the_victims_are_gone() -> None:
    world, pod = full_world()
    await world.refuse(pod)
    world.cluster.remove_pod(("default", "on-a"))

    answer = await world.filter(nominated(pod, "a"), ["a"])

    assert answer["NodeNames"] == ["a"]
    assert world.expected_on(pod) == "a"


@in_event_loop
async def test_the_room_of_a_pod_is_kept_from_others_before_the_watch_shows_the_nomination() -> None:
    world, pod = full_world()
    await world.refuse(pod)
    world.cluster.remove_pod(("default", "on-a"))
    rival = with_priority(make_pod("rival", requests={"cpu": "1"}), 100, "Never")
    world.show(rival)

    await world.refuse(rival)

    assert world.api.written == ROOM_ON_A


@in_event_loop
async def test_two_pods_get_different_room() -> None:
    world, pod = full_world()
    other = important("other")
    world.show(other)

    await world.refuse(pod)
    await world.refuse(other)

    assert [write for write in world.api.written if write[0] == "delete"] == [
        ("delete", "on-a", None),
        ("delete", "on-b", None),
    ]


@in_event_loop
async def test_a_lower_nomination_is_taken_back_after_the_evictions() -> None:
    world, pod = full_world()
    urgent = important("urgent", priority=1000)
    world.show(structs.replace(filler("b"), spec=structs.replace(filler("b").spec, priority=2000)), urgent)
    await world.refuse(pod)
    world.show(nominated(pod, "a"))

    await world.refuse(urgent)

    assert world.api.written[3:] == [
        ("nominate", "urgent", "a"),
        ("mark", "on-a", None),
        ("delete", "on-a", None),
        ("nominate", "important", None),
    ]


@in_event_loop
async def test_a_nomination_for_another_node_that_came_during_the_evictions_is_kept() -> None:
    world = PreemptingWorld(small_node("a"), small_node("b"), small_node("c"))
    names, pod, urgent = ["a", "b", "c"], important(), important("urgent", priority=1000)
    on_c = with_priority(make_pod("on-c", "c", requests={"cpu": "1"}), 2000)
    world.show(filler("a"), filler("b", priority=50), on_c, pod, urgent)
    await world.refuse(pod, names)
    world.show(nominated(pod, "a"), filler("b", priority=2000))
    world.api.slow["on-a"] = asyncio.Event()
    await world.refuse(urgent, names)
    world.show(filler("b"))

    world.cluster.remove_pod(("default", "on-a"))  # its end wakes the pod, and room on b is better by now
    await world.refuse(nominated(pod, "a"), names)
    world.api.slow["on-a"].set()
    await turns()

    assert ("nominate", "urgent", "a") in world.api.written
    assert [write for write in world.api.written if write[1] == "important"] == [
        ("nominate", "important", "a"),
        ("nominate", "important", "b"),
    ]


@in_event_loop
async def test_the_call_about_the_nominated_node_alone_evicts_nobody() -> None:
    world, pod = full_world()
    pod = nominated(pod, "b")
    world.show(pod)

    await world.refuse(pod, ["b"])
    assert world.api.written == []
    await world.refuse(pod)

    assert world.api.written == ROOM_ON_A


@in_event_loop
async def test_only_nodes_that_are_asked_about_are_considered() -> None:
    world, pod = full_world()

    await world.refuse(pod, ["b"])

    assert world.api.written[0] == ("nominate", "important", "b")


@pytest.mark.parametrize("policy", ["Never", ""])
def test_a_pod_that_may_not_or_cannot_preempt_evicts_nobody(policy: str) -> None:
    async def refused() -> Written:
        world = PreemptingWorld()
        pod = important(priority=100 if policy else 0, policy=policy)
        world.show(filler("a"), filler("b"), pod)
        await world.refuse(pod)
        return world.api.written

    assert asyncio.run(refused()) == []


@pytest.mark.parametrize("minor", [34, 37])
@pytest.mark.parametrize("nodes", [{"NodeNames": NAMES}, {"Nodes": {"items": [make_node("a"), make_node("b")]}}])
@in_event_loop
async def test_a_pod_that_is_refused_for_its_resource_claims_evicts_nobody(minor: int, nodes: dict[str, Any]) -> None:
    world, pod = PreemptingWorld(rules=rules_of(minor)), important()
    spec = structs.replace(pod.spec, resource_claims=(PodResourceClaim("gpu"),))
    pod = structs.replace(pod, spec=spec)
    world.show(filler("a"), filler("b"), pod)

    answer = await world.call("filter", {"Pod": pod, **nodes})
    await turns()

    assert set(answer["FailedAndUnresolvableNodes"]) == {"a", "b"}
    assert world.api.written == []
    assert world.count("scheduler_preemption_attempts_total") == 0


@pytest.mark.parametrize(("minor", "attempts"), [(33, 1), (34, 0), (37, 0)])
@in_event_loop
async def test_an_attempt_counts_where_default_preemption_was_called(minor: int, attempts: int) -> None:
    world, pod = PreemptingWorld(rules=rules_of(minor)), with_priority(with_claims("important", "gone"), 100)
    world.show(filler("a"), filler("b"), pod)

    await world.refuse(pod)

    assert world.api.written == []
    assert world.count("scheduler_preemption_attempts_total") == attempts


@in_event_loop
async def test_a_nomination_that_helps_no_more_is_taken_back() -> None:
    world = PreemptingWorld()
    pod = nominated(important(), "a")
    world.show(filler("a", 200), filler("b", 200), pod)

    await world.refuse(pod)

    assert world.api.written == [("nominate", "important", None)]


@in_event_loop
async def test_a_made_up_call_takes_back_no_nomination() -> None:
    world = PreemptingWorld()
    pod = nominated(important(), "a")
    world.show(filler("a"), filler("b"), pod)
    made_up = structs.replace(pod, spec=structs.replace(pod.spec, node_selector={"disk": "none"}))

    await world.refuse(made_up)

    assert world.api.written == []


@in_event_loop
async def test_calls_while_the_api_server_hangs_add_no_more_writes() -> None:
    world = PreemptingWorld()
    pod = nominated(important(), "a")
    world.show(filler("a", 200), filler("b", 200), pod)
    world.api.gate.clear()

    await world.refuse(pod)
    await world.refuse(pod)
    world.api.gate.set()
    await turns()

    assert world.api.written == [("nominate", "important", None)]


@in_event_loop
async def test_a_pod_that_the_watch_does_not_show_yet_waits_for_it() -> None:
    world = PreemptingWorld()
    pod = important()
    world.show(filler("a"), filler("b"))

    await world.refuse(pod)

    assert world.api.written == []
    refusal = world.extender.refused.get(pod.metadata.uid)
    assert refusal is not None
    assert refusal.is_withheld


@pytest.mark.parametrize("verb", ["nominate", "delete"])
@in_event_loop
async def test_if_a_write_fails_kube_scheduler_asks_again_and_the_pod_gets_room_then(verb: str) -> None:
    world, pod = full_world()
    world.api.refused_verb, world.api.error = verb, ApiError(ApiStatus(403, "Forbidden", "no"))

    await world.refuse(pod)

    refusal = world.extender.refused.get(pod.metadata.uid)
    assert refusal is not None
    assert refusal.is_withheld
    assert ("delete", "on-a", None) not in world.api.written
    world.api.error, world.api.written = None, []
    await world.refuse(pod)
    assert world.api.written == []  # asked at once, as the nomination is an event
    world.clock.now += 1.05
    await world.refuse(pod)
    assert world.api.written == ROOM_ON_A


@pytest.mark.parametrize("is_read", [True, False])
def test_nobody_is_evicted_for_a_pod_that_is_gone(caplog: pytest.LogCaptureFixture, *, is_read: bool) -> None:
    @in_event_loop
    async def story() -> None:
        world, pod = full_world()
        if is_read:
            world.api.pods.clear()
        else:  # it goes after it was read
            world.api.refused_verb, world.api.error = "nominate", ApiError(ApiStatus(404, "NotFound", "no"))
        await world.refuse(pod)
        assert world.api.written == []

    story()
    assert "a pod preempts no others" not in caplog.messages
    assert "preemption failed" not in caplog.messages


@in_event_loop
async def test_when_the_lease_is_lost_nothing_more_is_written() -> None:
    world, pod = full_world()
    world.api.gate.clear()
    await world.refuse(pod)

    world.extender.give_up("the lease has gone to another scheduler")
    world.api.gate.set()
    await turns()

    assert world.api.written == []


@in_event_loop
async def test_what_is_under_way_finishes_at_the_end() -> None:
    world, pod = full_world()
    await world.filter(pod, NAMES)

    await world.extender.close(grace_seconds=5.0)

    assert world.api.written == ROOM_ON_A


@in_event_loop
async def test_kube_scheduler_must_not_preempt_as_well() -> None:
    world, pod = full_world()

    response = await world.post("preempt", {"Pod": pod, "NodeNameToMetaVictims": {}})

    assert "--preemption=service" in response.text


@pytest.mark.parametrize(
    "made_up",
    [
        with_priority(important(), 1_000_000),
        structs.replace(important(), spec=structs.replace(important().spec, preemption_policy="PreemptLowerPriority")),
        structs.replace(important(), spec=structs.replace(important().spec, node_selector={"disk": "fast"})),
        structs.replace(important(), spec=structs.replace(important().spec, scheduler_name="another")),
        structs.replace(important(), metadata=structs.replace(important().metadata, labels={"made": "up"})),
    ],
    ids=["priority", "preemptionPolicy", "nodeSelector", "schedulerName", "labels"],
)
@in_event_loop
async def test_nobody_is_evicted_for_a_pod_that_is_not_as_the_api_server_has_it(made_up: Pod) -> None:
    world = PreemptingWorld(
        *(make_node(name, {"cpu": "1", "memory": "4Gi", "pods": "10"}, labels={"disk": "fast"}) for name in NAMES)
    )
    pod = important(policy="Never" if made_up.spec.preemption_policy else "")
    world.show(filler("a"), filler("b", priority=50), pod)

    await world.refuse(made_up)

    assert world.api.written == []
    world.cluster.remove_pod(("default", "on-a"))  # and no room is held
    assert (await world.filter(important("other", priority=1), NAMES))["NodeNames"] == ["a"]


@in_event_loop
async def test_a_pod_does_not_wait_for_a_victim_that_has_come_back() -> None:
    world, pod = full_world()
    await world.refuse(pod)
    world.show(nominated(pod, "a"), filler("a"))  # a backup of etcd was restored

    world.clock.now += 14
    await world.refuse(nominated(pod, "a"))
    assert world.api.written == ROOM_ON_A
    world.clock.now += 2
    await world.refuse(nominated(pod, "a"))

    assert world.api.written == [*ROOM_ON_A, *ROOM_ON_A]


@pytest.mark.parametrize("is_kept", [True, False])
@in_event_loop
async def test_nobody_is_evicted_while_a_node_is_not_known_yet(*, is_kept: bool) -> None:
    world, pod = full_world()
    world.extender.refused.is_kept = is_kept

    await world.filter(pod, [*NAMES, "new"])
    await turns()

    assert world.api.written == []


@in_event_loop
async def test_a_pod_that_is_only_expected_on_a_node_is_not_deleted() -> None:
    world, pod, expected = await world_with_an_expected_pod()

    await world.refuse(pod)

    assert world.api.written == [("nominate", "important", "a")]
    assert world.expected_on(expected) is None
    refusal = world.extender.refused.get(pod.metadata.uid)
    assert refusal is not None
    assert refusal.is_withheld


@in_event_loop
async def test_a_pod_whose_place_was_dropped_is_bound_only_if_it_fits_again() -> None:
    world, pod, expected = await world_with_an_expected_pod()
    await world.refuse(pod)

    is_full = "pod default/expected has no place on a any more, and does not fit there: Insufficient cpu"
    assert await world.bind(expected, "a") == is_full  # the other pod is nominated
    assert (await world.filter(nominated(pod, "a"), ["a"]))["NodeNames"] == ["a"]
    assert await world.bind(expected, "a") == is_full
    world.cluster.remove_pod(("default", "important"))
    assert await world.bind(expected, "a") == ""
    assert world.pods.bound == [("default", "expected", expected.metadata.uid, "a")]


@pytest.mark.parametrize("node_name", ["a", "unknown"])
@in_event_loop
async def test_a_service_that_has_restarted_binds_a_pod_that_it_did_not_place(node_name: str) -> None:
    world, pod = PreemptingWorld(), important()
    world.show(pod)
    world.pods.put(pod)

    assert await world.bind(pod, node_name) == ""
    assert world.expected_on(pod) == node_name


@in_event_loop
async def test_the_place_of_another_pod_is_kept_if_the_pod_is_not_as_the_api_server_has_it() -> None:
    world, pod, expected = await world_with_an_expected_pod()
    world.api.pods["important"] = structs.replace(pod, spec=structs.replace(pod.spec, node_selector={"made": "up"}))

    await world.refuse(pod)

    assert world.api.written == []
    assert world.expected_on(expected) == "a"


@in_event_loop
async def test_no_pod_loses_its_room_to_one_that_is_not_as_the_api_server_has_it() -> None:
    world, pod = full_world()
    urgent = important("urgent", priority=1000)
    world.show(with_priority(filler("b"), 2000), urgent)
    await world.refuse(pod)
    del world.api.pods["urgent"]

    await world.refuse(urgent)

    assert [each.uid for each in world.cluster.nominations.on_node("a")] == [pod.metadata.uid]


@in_event_loop
async def test_an_expected_victim_whose_binding_begins_meanwhile_is_evicted() -> None:
    world, pod, expected = await world_with_an_expected_pod()
    world.api.read_gate.clear()

    await world.refuse(pod)
    assert await world.bind(expected, "a") == ""
    world.api.read_gate.set()
    await turns()

    assert world.api.written == [
        ("nominate", "important", "a"),
        ("mark", "expected", None),
        ("delete", "expected", None),
    ]


@in_event_loop
async def test_an_expected_victim_whose_place_ends_meanwhile_is_left_alone() -> None:
    world, pod, expected = await world_with_an_expected_pod()
    world.api.read_gate.clear()

    await world.refuse(pod)
    world.cluster.drop_placement(expected.metadata.uid)
    world.api.read_gate.set()
    await turns()

    assert world.api.written == [("nominate", "important", "a")]


@in_event_loop
async def test_hardly_more_preemptions_are_kept_than_pods_wait() -> None:
    world, most = PreemptingWorld(), 0
    preemption = world.extender.filter.preemption
    assert preemption is not None
    for number in range(300):
        pod = important(f"p{number}")
        world.show(filler("a"), filler("b", priority=50), pod)
        await world.refuse(pod)
        assert world.api.written[-1] == ("delete", "on-a", None)
        world.cluster.remove_pod(("default", pod.metadata.name))
        most = max(most, len(preemption._pending))
    assert most <= 64

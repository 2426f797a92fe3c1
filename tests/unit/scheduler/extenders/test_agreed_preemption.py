"""Preemption that extenders must agree to."""

import functools
from typing import Any

import msgspec

from extender_service.kube.types.core import Pod
from tests.support.clusters.scheduler_world import SchedulerWorld
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod
from tests.support.servers.stub_extender import StubExtender, extended_world

PREEMPTS = {"preempt_verb": "preempt"}


def important(name: str) -> Pod:
    pod = make_pod(name, requests={"cpu": "4"})
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=100))


async def attempt(world: SchedulerWorld) -> None:
    world.create(make_pod("low-a", "a", requests={"cpu": "4"}), make_pod("low-b", "b", requests={"cpu": "4"}))
    world.create(important("p"))
    await world.attempt_with_extenders()
    await world.scheduler.close()


def condition(world: SchedulerWorld) -> str:
    texts = [patch["status"]["conditions"][0]["message"] for verb, name, patch in world.api.written if name == "p"]
    return str(texts[-1])


@in_event_loop
async def test_the_extender_drops_a_candidate_and_the_other_is_taken() -> None:
    def keep_b(args: Any) -> Any:
        return {"NodeNameToMetaVictims": {"b": args["NodeNameToMetaVictims"]["b"]}}

    stub = StubExtender(preempt=keep_b)
    async with extended_world(make_node("a"), make_node("b"), extenders=[(stub, PREEMPTS)]) as world:
        await attempt(world)
        [args] = stub.args("preempt")
        assert args["NodeNameToMetaVictims"] == {
            name: {"Pods": [{"UID": f"uid-of-low-{name}"}], "NumPDBViolations": 0} for name in "ab"
        }
        assert world.api.named("delete") == ["low-b"]


@in_event_loop
async def test_an_extender_without_a_cache_is_sent_whole_victims_and_may_answer_in_any_case() -> None:
    def keep_a(args: Any) -> Any:
        [pod] = args["NodeNameToVictims"]["a"]["Pods"]
        return {"nodeNameToMetaVictims": {"a": {"pods": [{"uid": pod["metadata"]["uid"]}]}}}

    stub = StubExtender(preempt=keep_a)
    fields = {**PREEMPTS, "node_cache_capable": False}
    async with extended_world(make_node("a"), make_node("b"), extenders=[(stub, fields)]) as world:
        await attempt(world)
        assert stub.args("preempt")[0]["NodeNameToMetaVictims"] is None
        assert world.api.named("delete") == ["low-a"]


@in_event_loop
async def test_an_extender_that_agrees_to_no_candidate_prevents_preemption() -> None:
    stub = StubExtender(preempt=lambda args: {})
    async with extended_world(make_node("a"), make_node("b"), extenders=[(stub, PREEMPTS)]) as world:
        await attempt(world)
        assert world.api.named("delete") == []
        assert condition(world).endswith("2 Insufficient cpu. preemption: no candidate node for preemption")


@in_event_loop
async def test_wrong_answers_about_victims_are_errors_and_an_ignorable_extender_is_skipped() -> None:
    cases: list[tuple[Any, str]] = [
        ({"c": {"Pods": []}}, 'nodeinfo not found for node name "c"'),
        ({"a": {"Pods": []}}, 'expected at least one victim pod on node "a"'),
        (
            {"a": {"Pods": [{"UID": "x"}]}},
            "claims to preempt pod (UID: x) on node: a, but the pod is not found",
        ),
    ]
    for victims, text in cases:
        stub = StubExtender(preempt=functools.partial(lambda answer, args: {"NodeNameToMetaVictims": answer}, victims))
        async with extended_world(make_node("a"), make_node("b"), extenders=[(stub, PREEMPTS)]) as world:
            await attempt(world)
            assert text in condition(world)
            assert world.api.named("delete") == []
    broken = StubExtender(preempt=lambda args: 500)
    async with extended_world(
        make_node("a"), make_node("b"), extenders=[(broken, {**PREEMPTS, "ignorable": True})]
    ) as world:
        await attempt(world)
        assert len(world.api.named("delete")) == 1

"""Where a pod goes when extenders have a say, and what happens if they fail, or if the cluster changes meanwhile."""

import asyncio
from typing import Any

import msgspec
import pytest

from extender_service.config.rules import rules_of
from extender_service.kube.types.core import Node
from tests.support.clusters.scheduler_world import NAME, SchedulerWorld, on_node
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod, watched
from tests.support.servers.stub_extender import StubExtender, extended_world
from tests.support.stub_plugins import Stub

NODES = [make_node(name) for name in "abc"]


def only(*names: str) -> Any:
    return lambda args: {
        "NodeNames": [name for name in args["NodeNames"] if name in names],
        "FailedNodes": {name: "no gpu" for name in args["NodeNames"] if name not in names},
    }


def scores(**by_name: int) -> Any:
    return lambda args: [{"Host": name, "Score": by_name.get(name, 0)} for name in args["NodeNames"]]


def message(world: SchedulerWorld) -> str:
    """The text of the only condition that was written."""
    [patch] = [patch for verb, _, patch in world.api.written if verb == "patch"]
    text: str = patch["status"]["conditions"][0]["message"]
    return text


@in_event_loop
async def test_each_extender_is_asked_about_the_nodes_that_the_one_before_left() -> None:
    first, second = StubExtender(filter=only("a", "b")), StubExtender(filter=only("b", "c"))
    async with extended_world(*NODES, make_node("full", {"pods": "0"}), extenders=[(first, {}), (second, {})]) as world:
        world.create(make_pod("p"))
        await world.attempt_with_extenders()
        assert [sorted(args["NodeNames"]) for args in first.args("filter")] == [["a", "b", "c"]]
        assert [sorted(args["NodeNames"]) for args in second.args("filter")] == [["a", "b"]]
        assert world.place_of(make_pod("p")) == "b"
        assert (first.args("prioritize"), second.args("prioritize")) == ([], [])  # one node is no choice
        assert first.args("filter")[0]["Pod"]["metadata"]["name"] == "p"
        await world.scheduler.close()


@in_event_loop
async def test_scores_of_extenders_are_weighed_and_added() -> None:
    first = StubExtender(prioritize=scores(a=10, b=10))
    second = StubExtender(prioritize=scores(a=1))
    async with extended_world(*NODES, extenders=[(first, {"weight": 100}), (second, {"weight": 3})]) as world:
        world.create(make_pod("p"))
        await world.attempt_with_extenders()
        assert world.place_of(make_pod("p")) == "a"
        await world.scheduler.close()


@in_event_loop
async def test_an_extender_that_fails_to_score_adds_nothing() -> None:
    broken, other = StubExtender(prioritize=lambda args: 500), StubExtender(prioritize=scores(c=10))
    async with extended_world(*NODES, extenders=[(broken, {"weight": 100}), (other, {"weight": 100})]) as world:
        world.create(make_pod("p"))
        await world.attempt_with_extenders()
        assert world.place_of(make_pod("p")) == "c"
        await world.scheduler.close()


@in_event_loop
async def test_users_see_why_extenders_refuse_all_nodes_and_any_change_wakes_the_pod() -> None:
    async with extended_world(*NODES, extenders=[(StubExtender(filter=only()), {})]) as world:
        world.create(make_pod("p"))
        await world.attempt_with_extenders()
        await world.scheduler.close()
        assert message(world).startswith("0/3 nodes are available: 3 no gpu. preemption: 0/3 nodes are available: ")
        assert world.where() == {"unschedulable": 1}
        world.clock.pass_seconds(60)
        world.node_watch.apply(make_node("a", labels={"any": "change"}))
        assert world.where() == {"active": 1}


@in_event_loop
async def test_a_node_that_an_extender_drops_without_a_reason_is_refused_as_well() -> None:
    stub = StubExtender(filter=lambda args: {"NodeNames": []})
    async with extended_world(*NODES, extenders=[(stub, {})]) as world:
        world.create(make_pod("p"))
        await world.attempt_with_extenders()
        await world.scheduler.close()
        assert message(world) == (
            "0/3 nodes are available: preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
        )
        assert world.where() == {"unschedulable": 1}


@in_event_loop
async def test_an_ignorable_extender_that_is_down_is_skipped_and_asked_last() -> None:
    down, other = StubExtender(filter=lambda args: 503), StubExtender(filter=only("b"))
    async with extended_world(*NODES, extenders=[(down, {"ignorable": True}), (other, {})]) as world:
        world.create(make_pod("p"))
        await world.attempt_with_extenders()
        assert [args["NodeNames"] for args in down.args("filter")] == [["b"]]
        assert world.place_of(make_pod("p")) == "b"
        await world.scheduler.close()


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (503, "failed filter with extender at URL {url}/filter, code 503"),
        ({"Error": "I am busy"}, "I am busy"),
        (b"", 'extender "{url}" gave an answer to filter that is wrong: it is empty'),
        (b"<html>", 'extender "{url}" gave an answer to filter that is wrong: '),
        (b"\xff", 'extender "{url}" gave an answer to filter that is wrong: '),
        (
            b'{"NodeNames":' + b"[" * 100_000,
            'extender "{url}" gave an answer to filter that is wrong: it is nested too deeply',
        ),
        (
            {"NodeNames": "a"},
            'extender "{url}" gave an answer to filter that is wrong: Expected `array | null`, got `str`',
        ),
        (
            {"NodeNames": ["else"]},
            'extender "{url}" claims a filtered node "else" which is not found in the input node list',
        ),
    ],
)
def test_a_wrong_answer_fails_the_attempt_with_an_error_that_names_the_extender(answer: Any, text: str) -> None:
    @in_event_loop
    async def run() -> None:
        stub = StubExtender(filter=lambda args: answer)
        async with extended_world(*NODES, extenders=[(stub, {})]) as world:
            world.create(make_pod("p"))
            await world.attempt_with_extenders()
            await world.scheduler.close()
            assert message(world).startswith(text.format(url=stub.url))
            assert world.where() == {"backoff": 1}
            assert world.events[-1].reason == "FailedScheduling"

    run()


@in_event_loop
async def test_a_slow_extender_fails_the_attempt_after_its_timeout_while_the_watch_goes_on() -> None:
    stub = StubExtender()
    stub.gate.clear()
    timeout = {"http_timeout": "200ms"}
    async with extended_world(*NODES, extenders=[(stub, timeout)]) as world:
        world.create(make_pod("p"))
        attempt = asyncio.create_task(world.attempt_with_extenders())
        await stub.has_arrived.wait()
        world.node_watch.apply(make_node("d"))
        assert world.cluster.node_count == 4
        await attempt
        await world.scheduler.close()
        assert "no whole answer within 0.2 s" in message(world)


async def held(world: SchedulerWorld, stub: StubExtender, change: Any) -> None:
    """Attempt a pod, and let the cluster change while the extender is asked."""
    stub.gate.clear()
    attempt = asyncio.create_task(world.attempt_with_extenders())
    await stub.has_arrived.wait()
    change()
    stub.gate.set()
    await attempt
    await world.scheduler.close()


@in_event_loop
async def test_a_node_that_leaves_while_extenders_are_asked_is_not_taken() -> None:
    stub = StubExtender(prioritize=scores(a=10))
    async with extended_world(*NODES, extenders=[(stub, {"weight": 100})]) as world:
        world.create(make_pod("p"))
        await held(world, stub, lambda: world.node_watch.remove(("", "a")))
        assert world.place_of(make_pod("p")) in ("b", "c")


@in_event_loop
async def test_if_the_only_node_that_passes_fills_up_meanwhile_the_pod_is_tried_again() -> None:
    stub = StubExtender(filter=only("a"))
    async with extended_world(*NODES, extenders=[(stub, {})]) as world:
        world.create(make_pod("p", requests={"cpu": "1"}))
        await held(world, stub, lambda: world.create(make_pod("other", "a", requests={"cpu": "4"})))
        assert message(world) == "the nodes that passed the extenders do not fit any more"
        assert world.where() == {"backoff": 1}


@in_event_loop
async def test_refusals_hold_for_the_nodes_that_are_left_when_others_left_meanwhile() -> None:
    stub = StubExtender(filter=only())
    async with extended_world(*NODES, extenders=[(stub, {})]) as world:
        world.create(make_pod("p"))
        await held(world, stub, lambda: world.node_watch.remove(("", "a")))
        assert message(world).startswith("0/2 nodes are available: 2 no gpu. ")


@in_event_loop
async def test_the_loop_that_is_cancelled_in_the_moment_in_which_a_pod_goes_ends() -> None:
    stub = StubExtender()
    async with extended_world(*NODES, extenders=[(stub, {})]) as world:
        world.create(make_pod("p"))
        stub.gate.clear()
        attempt = asyncio.create_task(world.attempt_with_extenders())
        await stub.has_arrived.wait()
        attempt.cancel("the lease is lost")
        world.delete(make_pod("p"))
        stub.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await attempt


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
@in_event_loop
async def test_a_pod_that_is_deleted_meanwhile_ends_the_attempt_at_once_and_leaves_nothing_behind(verb: str) -> None:
    gate = asyncio.Event()
    stub, pod = StubExtender(), make_pod("p")
    without = {"filter_verb": ""} if verb == "prioritize" else {}
    async with extended_world(*NODES, extenders=[(stub, without)], uses_hints=True) as world:
        world.create(pod)
        stub.gate = gate  # never opened before the attempt has ended
        attempt = asyncio.create_task(world.attempt_with_extenders())
        await stub.has_arrived.wait()
        assert [asked for asked, _ in stub.asked] == [verb]
        world.delete(pod)
        async with asyncio.timeout(5):
            await attempt
        gate.set()
        await world.scheduler.close()
        assert world.place_of(pod) == ""
        assert world.where() == {}
        assert (world.api.written, world.events) == ([], [])
        assert not world.queue._in_flight
        assert len(world.pending._at_end) == 0


@in_event_loop
async def test_a_pod_that_another_scheduler_binds_meanwhile_is_not_bound_again() -> None:
    stub, pod = StubExtender(), make_pod("p")
    async with extended_world(*NODES, extenders=[(stub, {})]) as world:
        world.create(pod)
        await held(world, stub, lambda: world.pod_watch.apply(watched(on_node(pod, "c"))))
        assert world.place_of(pod) == "c"
        assert (world.api.written, world.events) == ([], [])


@in_event_loop
async def test_a_pod_that_is_being_deleted_meanwhile_is_not_bound() -> None:
    stub, pod = StubExtender(), make_pod("p")
    metadata = msgspec.structs.replace(pod.metadata, resource_version="2", deletion_timestamp="2027-01-15T08:00:00Z")
    deleting = msgspec.structs.replace(pod, metadata=metadata)
    async with extended_world(*NODES, extenders=[(stub, {})]) as world:
        world.create(pod)
        await held(world, stub, lambda: world.create(deleting))
        world.attempt_all()
        await world.scheduler.close()
        assert world.api.written == []
        assert [event.note for event in world.events] == ["skip schedule deleting pod: default/p"]


@in_event_loop
async def test_a_pod_that_goes_in_the_moment_in_which_its_attempt_ends_is_not_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stub, pod = StubExtender(), make_pod("p")
    async with extended_world(*NODES, extenders=[(stub, {})]) as world:
        world.create(pod)
        place = world.engine.place

        def place_and_delete(*arguments: Any) -> Any:
            placement = place(*arguments)
            asyncio.get_running_loop().call_soon(world.delete, pod)
            return placement

        monkeypatch.setattr(world.engine, "place", place_and_delete)
        await world.attempt_with_extenders()
        await world.scheduler.close()
        assert world.place_of(pod) == ""
        assert world.where() == {}
        assert (world.api.written, world.events) == ([], [])


@in_event_loop
async def test_a_preemptor_that_is_deleted_meanwhile_deletes_no_pod() -> None:
    stub, small = StubExtender(), make_pod("p", requests={"cpu": "4"})
    pod = msgspec.structs.replace(small, spec=msgspec.structs.replace(small.spec, priority=10))
    async with extended_world(NODES[0], extenders=[(stub, {"preempt_verb": "preempt"})]) as world:
        world.create(make_pod("victim", "a", requests={"cpu": "4"}), pod)
        await held(world, stub, lambda: world.delete(pod))
        assert [asked for asked, _ in stub.asked] == ["preempt"]
        assert (world.api.written, world.events) == ([], [])


@in_event_loop
async def test_a_preemptor_that_changes_meanwhile_is_not_tried_again_before_its_victims_are_deleted() -> None:
    stub = StubExtender(preempt=lambda args: {"NodeNameToMetaVictims": args["NodeNameToMetaVictims"]})
    small = make_pod("p", requests={"cpu": "4"})
    pod = msgspec.structs.replace(small, spec=msgspec.structs.replace(small.spec, priority=10))
    metadata = msgspec.structs.replace(pod.metadata, resource_version="2", labels={"team": "a"})
    async with extended_world(NODES[0], extenders=[(stub, {"preempt_verb": "preempt"})]) as world:
        world.create(make_pod("victim", "a", requests={"cpu": "4"}), pod)
        world.api.slow, world.api.gate = {"victim"}, asyncio.Event()
        stub.gate.clear()
        attempt = asyncio.create_task(world.attempt_with_extenders())
        await stub.has_arrived.wait()
        world.create(msgspec.structs.replace(pod, metadata=metadata))
        stub.gate.set()
        await attempt
        assert world.queue.pop() is None
        world.api.gate.set()
        await world.scheduler.close()
        assert world.api.named("delete") == ["victim"]
        [entry] = world.queue.entries()
        assert entry.info.pod.metadata.labels == {"team": "a"}


@in_event_loop
async def test_a_nominated_node_comes_first_also_where_pre_filter_names_others() -> None:
    stub = StubExtender()
    plugins = {"preFilter": [(Stub("OnlyB", pre_filter={"b"}), 0)]}
    async with extended_world(*NODES, extenders=[(stub, {})], plugins=plugins) as world:
        world.create(make_pod("p", nominated="c"))
        await world.attempt_with_extenders()
        assert [args["NodeNames"] for args in stub.args("filter")] == [["c"]]
        assert world.place_of(make_pod("p")) == "c"
        await world.scheduler.close()


@in_event_loop
async def test_the_nominated_node_is_asked_about_alone_and_all_others_only_if_it_does_not_pass() -> None:
    stub = StubExtender(filter=only("b", "c"))
    async with extended_world(*NODES, extenders=[(stub, {})]) as world:
        world.create(make_pod("p", nominated="c"), make_pod("q", nominated="a"))
        await world.attempt_with_extenders()
        assert [args["NodeNames"] for args in stub.args("filter")] == [["c"]]
        assert world.place_of(make_pod("p", nominated="c")) == "c"
        await world.attempt_with_extenders()
        assert [args["NodeNames"] for args in stub.args("filter")][1:] == [["a"], ["a", "b", "c"]]
        await world.scheduler.close()


@pytest.mark.parametrize(("minor", "reasons"), [(31, "2 no"), (32, "1 no"), (37, "1 no")])
@in_event_loop
async def test_a_nominated_node_that_is_refused_twice_has_one_reason_from_1_32_on(minor: int, reasons: str) -> None:
    stub = StubExtender(filter=lambda _: {"NodeNames": [], "FailedNodes": {"a": "no"}})
    async with extended_world(make_node("a"), extenders=[(stub, {})], plugins={}, rules=rules_of(minor)) as world:
        world.create(make_pod("p", nominated="a"))
        await world.attempt_with_extenders()
        await world.scheduler.close()
        assert [event.note for event in world.events] == [f"0/1 nodes are available: {reasons}."]


@in_event_loop
async def test_pods_without_a_managed_resource_do_not_concern_the_extender() -> None:
    stub = StubExtender()
    managed = {"managed_resources": ({"name": "example.com/gpu"},)}
    nodes = [make_node("a", {"cpu": "4", "pods": "9", "example.com/gpu": "1"})]
    async with extended_world(*nodes, extenders=[(stub, managed)]) as world:
        world.create(make_pod("plain"), make_pod("with-gpu", requests={"example.com/gpu": "1"}))
        await world.attempt_with_extenders()
        await world.attempt_with_extenders()
        assert [args["Pod"]["metadata"]["name"] for args in stub.args("filter")] == ["with-gpu"]
        await world.scheduler.close()


@in_event_loop
async def test_an_extender_without_a_cache_is_sent_whole_nodes() -> None:
    def first(args: Any) -> Any:
        return {"nodes": {"items": args["Nodes"]["items"][:1]}}

    stub = StubExtender(filter=first)
    async with extended_world(*NODES, extenders=[(stub, {"node_cache_capable": False})]) as world:
        world.create(make_pod("p"))
        await world.attempt_with_extenders()
        [args] = stub.args("filter")
        assert args["NodeNames"] is None
        assert msgspec.convert(args["Nodes"]["items"], list[Node]) == NODES
        assert world.place_of(make_pod("p")) == "a"
        await world.scheduler.close()


@in_event_loop
async def test_an_extender_binds_instead_of_the_plugins() -> None:
    world_of: list[SchedulerWorld] = []

    def bind(args: Any) -> Any:
        [world] = world_of
        key = args["PodNamespace"], args["PodName"]
        world.api.pods[key] = make_pod("p", args["Node"])
        return {}

    stub = StubExtender(bind=bind)
    async with extended_world(*NODES, extenders=[(stub, {"bind_verb": "bind"})]) as world:
        world_of.append(world)
        world.create(make_pod("p"))
        await world.attempt_with_extenders()
        await world.scheduler.close()
        [args] = stub.args("bind")
        assert args == {"PodName": "p", "PodNamespace": "default", "PodUID": "uid-of-p", "Node": args["Node"]}
        assert world.api.named("bind") == []
        assert world.notes(make_pod("p")) == ["Scheduled"]


@in_event_loop
@pytest.mark.parametrize(("answer", "note"), [({}, "Scheduled"), ({"Error": "it is gone"}, "FailedScheduling")])
async def test_of_a_pod_that_is_deleted_before_an_extender_answers_the_event_is_as_the_answer(
    answer: Any, note: str
) -> None:
    """kube-scheduler asks for no more than that the extender reports no error (finishBinding)."""
    stub = StubExtender(bind=lambda _: answer)
    async with extended_world(*NODES, extenders=[(stub, {"bind_verb": "bind"})]) as world:
        pod = make_pod("p")
        world.create(pod)
        stub.gate.set()
        await world.attempt_with_extenders()
        stub.gate.clear()
        while not stub.args("bind"):
            await asyncio.sleep(0)
        world.delete(pod)
        stub.gate.set()
        await world.scheduler.close()
        assert world.notes(pod) == [note]
        assert world.where() == {}


@in_event_loop
async def test_a_failed_binding_of_an_extender_is_reported_and_the_pod_tried_again() -> None:
    stub = StubExtender(bind=lambda args: {"Error": "no licence"})
    async with extended_world(*NODES, extenders=[(stub, {"bind_verb": "bind"})]) as world:
        world.create(make_pod("p"))
        await world.attempt_with_extenders()
        await world.scheduler.close()
        assert message(world) == "no licence"
        assert world.where() == {"backoff": 1}


@in_event_loop
async def test_what_an_extender_that_is_ignorable_does_not_bind_the_plugins_do() -> None:
    stub = StubExtender(bind=lambda args: 500)
    async with extended_world(*NODES, extenders=[(stub, {"bind_verb": "bind", "ignorable": True})]) as world:
        world.create(make_pod("p"))
        await world.attempt_with_extenders()
        await world.scheduler.close()
        assert world.api.named("bind") == ["p"]


@in_event_loop
async def test_extenders_are_asked_about_sampled_nodes_only() -> None:
    stub = StubExtender(filter=only())
    nodes = [make_node(f"n{number:03}") for number in range(150)]
    async with extended_world(*nodes, extenders=[(stub, {})], percentage=1) as world:
        world.create(make_pod("p"))
        await world.attempt_with_extenders()
        await world.scheduler.close()
        [args] = stub.args("filter")
        assert args["NodeNames"] == [node.metadata.name for node in nodes[:100]]
        assert message(world).startswith("0/150 nodes are available: 100 no gpu. ")
        assert world.sampling is not None
        assert world.sampling.next_start == 100


@in_event_loop
async def test_where_nothing_else_scores_extenders_choose_alone() -> None:
    stub = StubExtender(prioritize=scores(b=1))
    async with extended_world(*NODES, extenders=[(stub, {})], plugins={}) as world:
        world.create(make_pod("p"))
        await world.attempt_with_extenders()
        assert world.place_of(make_pod("p")) == "b"
        await world.scheduler.close()
        assert world.engine.profiles.has(NAME)


@in_event_loop
async def test_the_time_that_extenders_take_is_not_that_of_the_plugins() -> None:
    def slowly(answer: Any) -> Any:
        def answered(args: Any) -> Any:
            world.clock.pass_seconds(60)
            return answer(args)

        return answered

    stub = StubExtender(filter=slowly(only("a", "b")), prioritize=slowly(scores(b=10)))
    async with extended_world(*NODES, extenders=[(stub, {"weight": 100})], decision_seconds=4) as world:
        world.create(make_pod("p"))
        await world.attempt_with_extenders()
        assert world.place_of(make_pod("p")) == "b"
        stub.answers["filter"] = slowly(only())
        world.create(make_pod("q"))
        await world.attempt_with_extenders()
        await world.scheduler.close()
        assert message(world).startswith("0/3 nodes are available: 3 no gpu. preemption: 0/3 nodes are available: ")


@in_event_loop
async def test_plugins_that_take_too_long_on_the_nominated_node_are_asked_about_no_other() -> None:
    slow = Stub("Slow", rejects=lambda: world.clock.pass_seconds(5))
    plugins = {"filter": [(slow, 0)]}
    async with extended_world(*NODES, extenders=[(StubExtender(), {})], plugins=plugins, decision_seconds=4) as world:
        world.create(make_pod("p", nominated="b"))
        await world.attempt_with_extenders()
        await world.scheduler.close()
        assert slow.asked == [1]
        assert message(world) == 'running "Slow" filter plugin: the time for this decision is over (--decision-timeout)'

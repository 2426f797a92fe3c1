import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence

import pytest
from msgspec import structs

from extender_service.cluster.state.cluster import Cluster
from extender_service.extender import asking_again
from extender_service.extender.asking_again import MOST_ASKED_AT_ONCE, AskingAgain
from extender_service.extender.modes import Mode
from extender_service.extender.second_look import SAVED_SECONDS
from extender_service.framework.guard import CycleError, OutOfTimeError
from extender_service.kube.api_errors import ApiError, ApiStatus, KubeError
from extender_service.kube.types.core import Pod
from extender_service.scheduling import write_turns
from extender_service.scheduling.decision import Decision
from extender_service.scheduling.question import Question
from tests.support.clusters.extender_world import ExtenderWorld
from tests.support.objects import make_node, make_pod, preempted

WEB = make_pod("web", requests={"cpu": "4"})
OLD = make_pod("old", "a", requests={"cpu": "4"})


class World:
    """Node a is full of a pod, and pods that are refused there are asked about again by `touched`."""

    def __init__(self, mode: Mode = "replace") -> None:
        self.extender = ExtenderWorld(make_node("a"), mode=mode)
        self.cluster = self.extender.cluster
        self.clock = self.extender.clock
        self.cluster.apply_pod(OLD)
        self.touched: list[tuple[str, str, str]] = []
        self.errors: list[KubeError] = []
        self.hanging: set[str] = set()
        self.asking: AskingAgain = self.extender.extender.asking_again(self.touch)

    async def touch(self, namespace: str, name: str, uid: str) -> None:
        if self.errors:
            raise self.errors.pop(0)
        if namespace in self.hanging:
            await asyncio.Event().wait()
        self.touched.append((namespace, name, uid))

    async def refuse(self, pod: Pod = WEB, names: Sequence[str] = ("a",)) -> None:
        answer = await self.extender.filter(pod, list(names))
        assert not answer["NodeNames"]

    async def look(self, seconds: float = 3.0) -> list[str]:
        """Look for some time; returns the names of the pods that were asked about in it."""
        before = len(self.touched)
        for _ in range(round(seconds * 10)):
            self.clock.pass_seconds(0.1)
            await self.asking.look()
            await asyncio.sleep(0)
        return [name for _, name, _ in self.touched[before:]]

    def free(self) -> None:
        self.cluster.remove_pod(("default", "old"))


def run(story: Callable[[World], Awaitable[None]], mode: Mode = "replace") -> World:
    world = World(mode)

    async def told() -> None:
        await story(world)

    asyncio.run(told())
    return world


@pytest.mark.parametrize("mode", ["beside", "replace"])
def test_a_pod_that_fits_once_the_watch_has_caught_up_is_asked_about_once(mode: Mode) -> None:
    async def story(world: World) -> None:
        await world.refuse()
        assert await world.look() == []
        world.free()
        assert await world.look(1.0) == ["web"]
        assert await world.look() == []

    world = run(story, mode)
    assert world.touched == [("default", "web", "uid-of-web")]
    assert world.asking.counts == {"asked": 1, "failed": 0}


def test_a_pod_that_still_fits_nowhere_is_left_alone() -> None:
    async def story(world: World) -> None:
        await world.refuse()
        world.cluster.apply_node(make_node("a", {"cpu": "4", "pods": "20"}))
        world.cluster.apply_node(make_node("b"))  # about which nobody has asked
        assert await world.look() == []

    run(story)


def test_a_node_that_was_asked_about_before_it_was_known_counts() -> None:
    async def story(world: World) -> None:
        await world.refuse(names=["a", "b"])
        world.cluster.apply_node(make_node("b"))
        assert await world.look() == ["web"]

    run(story)


@pytest.mark.parametrize("turns", range(8))
def test_a_node_that_comes_just_as_the_wait_for_it_ends_is_not_missed(turns: int) -> None:
    async def story(world: World) -> None:
        loop = asyncio.get_running_loop()

        def add_in(turns: int) -> None:
            if turns:
                loop.call_soon(add_in, turns - 1)
            else:
                world.cluster.apply_node(make_node("b"))

        asking = asyncio.create_task(world.extender.filter(WEB, ["a", "b"]))
        while not world.cluster.changes._waiting:
            await asyncio.sleep(0)
        loop.call_later(SAVED_SECONDS, add_in, turns)
        # Both are due in the same turn of the loop.
        time.sleep(SAVED_SECONDS + 0.05)  # noqa: ASYNC251
        answer = await asking
        assert answer["NodeNames"] == ["b"] or await world.look() == ["web"]

    run(story)


def test_kube_scheduler_gets_time_to_ask_by_itself() -> None:
    async def story(world: World) -> None:
        await world.refuse()
        world.free()
        assert await world.look(1.0) == []  # its backoff
        assert (await world.extender.filter(WEB, ["a"]))["NodeNames"] == ["a"]
        assert await world.look() == []

    run(story)


def test_a_pod_that_was_bound_or_asked_about_elsewhere_is_left_alone() -> None:
    async def story(world: World) -> None:
        await world.refuse()
        world.free()
        world.cluster.apply_pod(make_pod("web", "b"))
        assert await world.look() == []

    run(story)


def test_what_happens_long_after_a_refusal_kube_scheduler_sees_by_itself() -> None:
    async def story(world: World) -> None:
        await world.refuse()
        assert await world.look(16.0) == []
        world.free()
        assert await world.look() == []

    run(story)


def test_room_that_is_gone_again_does_not_count() -> None:
    async def story(world: World) -> None:
        await world.refuse()
        world.free()
        assert await world.look(0.5) == []
        world.cluster.apply_pod(OLD)
        assert await world.look() == []
        world.free()
        assert await world.look() == ["web"]

    run(story)


def test_another_refusal_is_another_reason_to_ask() -> None:
    async def story(world: World) -> None:
        for _ in range(2):
            await world.refuse()
            world.free()
            assert await world.look() == ["web"]
            world.cluster.apply_pod(OLD)

    run(story)


def test_a_pod_that_was_kept_from_preempting_is_asked_about_when_its_victims_are_gone() -> None:
    """Whether it fits or not: if it does not, it may preempt others now."""
    victim = preempted(OLD)
    web = structs.replace(WEB, spec=structs.replace(WEB.spec, priority=10))
    web = structs.replace(web, status=structs.replace(web.status, nominated_node_name="a"))

    async def story(world: World) -> None:
        world.cluster.apply_pod(victim)
        await world.refuse(web)
        body = {"Pod": web, "NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "uid-of-old"}]}}}
        assert await world.extender.call("preempt", body) == {"NodeNameToMetaVictims": {}}
        assert await world.look(20.0) == []
        world.free()
        world.cluster.apply_pod(make_pod("rival", "a", requests={"cpu": "4"}))
        assert await world.look() == ["web"]

    run(story)


def test_a_pod_that_was_kept_from_preempting_is_asked_about_when_the_new_node_is_known() -> None:
    async def story(world: World) -> None:
        await world.refuse(names=["a", "new"])
        body = {"Pod": WEB, "NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "uid-of-old"}]}}}
        assert await world.extender.call("preempt", body) == {"NodeNameToMetaVictims": {}}
        assert await world.look(10.0) == []
        world.cluster.apply_node(make_node("new", {"cpu": "1"}))
        assert await world.look() == ["web"]
        await world.refuse(names=["a", "gone"])
        await world.extender.call("preempt", body)
        assert await world.look(10.0) == []
        assert await world.look(10.0) == ["web"]

    run(story)


def test_nothing_is_written_while_this_service_may_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise CycleError("another pair works")

    async def story(world: World) -> None:
        await world.refuse()
        world.free()
        monkeypatch.setattr(world.extender.trust, "require", refuse)
        assert await world.look() == []
        monkeypatch.undo()
        assert await world.look() == ["web"]

    run(story)


def test_nothing_is_written_about_refusals_from_before_the_lease_was_lost() -> None:
    async def story(world: World) -> None:
        await world.refuse()
        world.free()
        world.extender.extender.give_up("the lease has gone")
        assert await world.look() == []

    run(story)


def test_a_lease_that_is_lost_while_a_pod_waits_for_its_turn_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise CycleError("another pair works")

    async def story(world: World) -> None:
        await world.refuse()
        world.free()
        for _ in range(12):
            world.clock.pass_seconds(0.1)
            await world.asking.look()
            if len(world.extender.extender.refused) == 0:
                monkeypatch.setattr(world.extender.trust, "require", refuse)
            await asyncio.sleep(0)
        assert world.touched == []

    run(story)


@pytest.mark.parametrize(
    "refusal",
    [
        ApiStatus(404, "NotFound", 'pods "p" not found'),
        ApiStatus(409, "Conflict", "Precondition failed: UID in precondition: a, UID in object meta: b"),
        ApiStatus(422, "Invalid", 'metadata.uid: Invalid value: "a": field is immutable'),
    ],
    ids=lambda refusal: refusal.reason,
)
def test_a_pod_that_is_gone_is_no_failure(refusal: ApiStatus, caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        world.errors = [ApiError(refusal)]
        await world.refuse()
        world.free()
        assert await world.look() == []
        assert world.asking.counts == {"asked": 0, "failed": 0}

    run(story)
    assert caplog.messages == []


def test_a_missing_right_is_reported_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def story(world: World) -> None:
        world.errors = [ApiError(ApiStatus(403, "Forbidden", "pods is forbidden")) for _ in range(3)]
        for _ in range(3):
            await world.refuse()
            world.free()
            await world.look()
            world.cluster.apply_pod(OLD)

    world = run(story)
    assert world.asking.counts == {"asked": 0, "failed": 3}
    (message,) = caplog.messages
    assert "grant the right to patch pods, or set --ask-again=false" in message


def test_many_pods_are_asked_about_at_a_bounded_rate() -> None:
    async def story(world: World) -> None:
        for number in range(100):
            await world.refuse(make_pod(f"web-{number}", requests={"cpu": "1"}))
        world.free()
        asked = await world.look(2.0)
        assert len(asked) <= 20 + 10 + 10 * 2

    run(story)


def test_pods_of_other_namespaces_are_asked_about_while_those_of_one_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_turns, "HANG_SECONDS", 0.001)

    async def story(world: World) -> None:
        world.hanging = {"broken"}
        for number in range(50):
            await world.refuse(make_pod(f"broken-{number}", namespace="broken", requests={"cpu": "1"}))
        await world.refuse()
        world.free()
        asked: list[str] = []
        for _ in range(10):
            asked += await world.look(1.0)
            await asyncio.sleep(0.002)
        assert asked == ["web"]
        assert len(world.asking._under_way) < 2 * MOST_ASKED_AT_ONCE

    run(story)


def test_no_pod_is_decided_about_while_a_call_is_in_work() -> None:
    async def story(world: World) -> None:
        for name in ("web-1", "web-2"):
            await world.refuse(make_pod(name, requests={"cpu": "4"}))
        world.free()
        refusals = world.extender.extender.refused.all()
        await world.asking.look(lambda: False)
        assert [refusal.fits_at is None for refusal in refusals] == [False, True]
        await world.asking.look(lambda: False)  # the other one's turn
        assert [refusal.fits_at is None for refusal in refusals] == [False, False]

    run(story)


def test_a_pod_that_goes_costs_no_other_its_turn() -> None:
    async def story(world: World) -> None:
        for name in ("web-1", "web-2", "web-3"):
            await world.refuse(make_pod(name, requests={"cpu": "4"}))
        world.free()
        _, second, third = world.extender.extender.refused.all()
        world.cluster.apply_pod(make_pod("web-1", "b"))
        await world.asking.look(lambda: False)
        await world.asking.look(lambda: False)
        assert (second.fits_at is None, third.fits_at is None) == (False, True)

    run(story)


def test_a_pod_that_waits_for_others_to_be_changed_comes_first_then() -> None:
    async def story(world: World) -> None:
        world.hanging = {"broken"}
        for number in range(MOST_ASKED_AT_ONCE):
            await world.refuse(make_pod(f"broken-{number}", namespace="broken", requests={"cpu": "1"}))
        await world.refuse()
        world.free()
        for seconds in (2.0, 0.5):
            world.clock.pass_seconds(seconds)
            await world.asking.look()
            await asyncio.sleep(0)
        changed = list(world.asking._under_way)
        assert len(changed) == MOST_ASKED_AT_ONCE
        for task in changed:
            task.cancel()
        await asyncio.wait(changed)
        await world.asking.look()
        await asyncio.wait(world.asking._under_way)
        assert world.touched == [("default", "web", "uid-of-web")]

    run(story)


def test_a_pod_whose_turn_comes_late_is_decided_about_all_the_same() -> None:
    async def story(world: World) -> None:
        await world.refuse()
        world.free()
        world.clock.pass_seconds(20.0)
        assert await world.look(1.0) == ["web"]
        world.cluster.apply_pod(OLD)
        await world.refuse()
        world.clock.pass_seconds(20.0)
        assert await world.look(1.0) == []
        world.free()  # which kube-scheduler sees by itself
        assert await world.look() == []

    run(story)


def test_a_plugin_that_fails_ends_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a bug")

    async def story(world: World) -> None:
        await world.refuse()
        world.free()
        monkeypatch.setattr(world.extender.engine, "decide_without_reuse", fails)
        assert await world.look() == []

    run(story)
    assert "deciding about a refused pod failed" in caplog.messages


@pytest.mark.parametrize("after_seconds", [0.0, 20.0])
@pytest.mark.parametrize(("late", "asked"), [(3, ["web"]), (1000, [])])
def test_a_moment_in_which_the_machine_is_slow_costs_no_pod_its_place(
    late: int, asked: list[str], after_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [late]

    async def story(world: World) -> None:
        await world.refuse()
        world.free()
        decide = world.extender.engine.decide_without_reuse

        def slow(question: Question) -> Decision:
            if left[0]:
                left[0] -= 1
                raise OutOfTimeError("it took too long")
            return decide(question)

        monkeypatch.setattr(world.extender.engine, "decide_without_reuse", slow)
        world.clock.pass_seconds(after_seconds)
        assert await world.look() == asked

    run(story)
    assert left == [max(0, late - 11)]


def test_it_runs_until_it_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking_again, "_TICK_SECONDS", 0.001)

    async def story(world: World) -> None:
        running = asyncio.create_task(world.asking.run(lambda: True))
        await world.refuse()
        world.free()
        while not world.touched:
            world.clock.pass_seconds(0.1)
            await asyncio.sleep(0.001)
        running.cancel()
        await asyncio.wait([running])

    assert run(story).touched == [("default", "web", "uid-of-web")]


def high(node_name: str) -> Pod:
    """A pod that is nominated for a node, or for none."""
    pod = make_pod("high", requests={"cpu": "4"}, nominated=node_name)
    return structs.replace(pod, spec=structs.replace(pod.spec, scheduler_name="default-scheduler"))


def gone(cluster: Cluster) -> None:
    cluster.remove_pod(("default", "high"))


def cleared(cluster: Cluster) -> None:
    cluster.apply_pod(high(""))


@pytest.mark.parametrize("ends", [gone, cleared])
def test_a_pod_that_was_refused_for_room_kept_for_another_is_asked_about_once_that_ends(
    ends: Callable[[Cluster], None],
) -> None:
    """Our watch may show the end of a nomination after kube-scheduler has asked because of it."""

    async def story(world: World) -> None:
        world.free()
        world.cluster.apply_pod(high("a"))
        await world.refuse()
        assert await world.look() == []
        ends(world.cluster)
        assert await world.look() == ["web"]

    run(story)


def test_a_pod_that_was_refused_for_room_made_ahead_is_asked_about_once_that_was_withdrawn() -> None:
    """Then the API server has seen nothing, and no event of it moves the pod."""

    async def story(world: World) -> None:
        world.free()
        world.cluster.apply_pod(high(""))
        slot = world.cluster.slot_of(("default", "high"))
        assert slot is not None
        world.cluster.nominations.nominate_ahead(high(""), "uid-of-high", slot, "a")
        await world.refuse()
        assert await world.look() == []
        world.cluster.nominations.withdraw("uid-of-high", "")
        assert await world.look() == ["web"]

    run(story)

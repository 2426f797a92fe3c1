import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from extender_service.extender.leadership import Leadership, LeaseTimes
from extender_service.framework.handle import Handle
from extender_service.framework.waiting_pods import WaitingPod
from extender_service.kube.api_errors import UnreachableError
from tests.support import virtual_time
from tests.support.binding_plugins import Doorman
from tests.support.clock import Clock
from tests.support.clusters.extender_world import ExtenderWorld, Hold
from tests.support.objects import make_node, make_pod

WEB = make_pod("web", requests={"cpu": "1"})
OURS, NEXT_OURS, THEIRS = "pair-a_1", "pair-a_2", "pair-b_1"


class Lease:
    """A lease that is read as often as a test says, by the service of host pair-a."""

    def __init__(self, patience_seconds: float = 0.01) -> None:
        self.holder = ""
        self.error: Exception | None = None
        self.clock = Clock()
        self.lost = 0
        self.world = ExtenderWorld(make_node("a"), mode="replace")
        times = LeaseTimes(good_seconds=2.0, patience_seconds=patience_seconds)
        self.leadership = Leadership(self._read, "pair-a", times=times, clock=self.clock)
        self.world.trust._leadership = self.leadership
        self.world.pods.put(WEB)

    async def read(self, holder: str | None = None) -> str | None:
        """Have the lease read once, as it is or with a new holder; returns why the service may not work now."""
        self.holder = self.holder if holder is None else holder
        following = asyncio.create_task(self.leadership.follow(self._on_lost))
        await asyncio.sleep(0.001)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        return self.leadership.problem()

    def _on_lost(self) -> None:
        self.lost += 1
        self.world.extender.give_up("the lease is gone")

    async def _read(self) -> str:
        if self.error is not None:
            raise self.error
        return self.holder


def run(test: Callable[[Lease], Coroutine[Any, Any, None]]) -> None:
    async def within() -> None:
        await test(Lease())

    asyncio.run(within())


def test_it_works_once_the_lease_has_been_held_here_for_a_while() -> None:
    async def test(lease: Lease) -> None:
        assert lease.leadership.problem() == "it has not been read yet who holds the lease"
        assert await lease.read("") == "the lease is not held"
        assert await lease.read(THEIRS) == "the lease is held by pair-b_1"
        assert await lease.read(OURS) == "the lease was taken just now, its last holder may not know yet"
        lease.clock.pass_seconds(1.9)
        assert await lease.read() is not None
        lease.clock.pass_seconds(0.1)
        assert await lease.read() is None
        assert lease.lost == 0

    run(test)


def test_a_host_whose_name_begins_like_ours_is_another() -> None:
    async def test(lease: Lease) -> None:
        assert await lease.read("pair-abc_1") == "the lease is held by pair-abc_1"

    run(test)


@pytest.mark.parametrize("next_holder", [THEIRS, "", NEXT_OURS])
def test_it_stops_and_tells_when_another_holds_the_lease(next_holder: str) -> None:
    async def test(lease: Lease) -> None:
        await held(lease)
        assert await lease.read(next_holder) is not None
        assert lease.lost == 1
        lease.clock.pass_seconds(2.0)
        assert (await lease.read() is None) == (next_holder == NEXT_OURS)
        assert lease.lost == 1

    run(test)


def test_what_was_read_counts_for_a_while() -> None:
    async def test(lease: Lease) -> None:
        await held(lease)
        lease.error = UnreachableError("the API server is away")
        lease.clock.pass_seconds(1.9)
        assert await lease.read() is None
        lease.clock.pass_seconds(0.1)
        assert await lease.read() == (
            "who holds the lease was read 2.0 s ago, and that counts for 2 s: the API server is away"
        )
        lease.error = None
        assert await lease.read() is None
        assert lease.lost == 0  # the same process holds it: nobody else has in between

    run(test)


def test_who_pauses_does_not_go_on_by_what_it_knew_before() -> None:
    async def test(lease: Lease) -> None:
        await held(lease)
        lease.clock.pass_seconds(60)
        assert lease.leadership.problem() is not None

    run(test)


class SlowLease:
    """A lease that is read in virtual time, each time for so many `seconds`; `begun` is when readings began."""

    def __init__(self, seconds: float, holder: str = OURS) -> None:
        self.seconds = seconds
        self.holder = holder
        self.begun: list[float] = []
        self.leadership = Leadership(self._read, "pair-a", clock=virtual_time.time)

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[Leadership]:
        following = asyncio.create_task(self.leadership.follow(lambda: None))
        try:
            yield self.leadership
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def problems(self, seconds: float) -> set[str | None]:
        """What keeps the service from working within so many seconds from now on."""
        found = set()
        until = virtual_time.time() + seconds
        while virtual_time.time() < until:
            found.add(self.leadership.problem())
            await asyncio.sleep(0.01)
        return found

    async def _read(self) -> str:
        self.begun.append(virtual_time.time())
        holder, seconds = self.holder, self.seconds
        await asyncio.sleep(seconds)
        return holder


@pytest.mark.parametrize(("seconds", "times_a_minute"), [(0.0, 60), (0.7, 60), (1.5, 220), (1.75, 300)])
def test_readings_that_take_long_fail_no_call(seconds: float, times_a_minute: int) -> None:
    async def test() -> None:
        lease = SlowLease(seconds)
        async with lease.followed():
            await asyncio.sleep(2 * seconds + 2.0)
            lease.begun.clear()
            assert await lease.problems(60.0) == {None}
            assert len(lease.begun) <= times_a_minute + 1

    virtual_time.run(test())


def test_a_call_waits_where_readings_suddenly_take_long() -> None:
    async def test() -> None:
        lease = SlowLease(0.01)
        async with lease.followed() as leadership:
            await asyncio.sleep(5.0)
            lease.seconds = 1.5
            for _ in range(1000):
                asked_at = virtual_time.time()
                await leadership.wait()
                assert leadership.problem() is None
                assert virtual_time.time() - asked_at < 1.0
                await asyncio.sleep(0.01)
            assert await lease.problems(60.0) == {None}
            # Once answers are quick again, so are the readings few.
            lease.seconds = 0.01
            await asyncio.sleep(60.0)
            lease.begun.clear()
            await asyncio.sleep(60.0)
            assert len(lease.begun) <= 61

    virtual_time.run(test())


def test_where_no_answer_comes_while_it_counts_the_error_says_so() -> None:
    async def test() -> None:
        lease = SlowLease(2.5)
        slow = "the API server took longer than 2 s to answer, and its answer counts for no longer"
        async with lease.followed() as leadership:
            await asyncio.sleep(3.0)
            assert leadership.problem() == slow
            lease.seconds = 0.0
            await asyncio.sleep(4.0)
            assert leadership.problem() is None
            lease.seconds = 2.5
            await asyncio.sleep(10.0)
            problem = leadership.problem()
            assert problem is not None
            assert re.fullmatch(
                rf"who holds the lease was read \d+\.\d s ago, and that counts for 2 s: {slow}", problem
            )

    virtual_time.run(test())


def test_an_answer_that_was_overtaken_does_not_count() -> None:
    async def test() -> None:
        lease = SlowLease(1.9)
        async with lease.followed() as leadership:
            await asyncio.sleep(0.5)
            lease.seconds, lease.holder = 0.1, THEIRS
            await asyncio.sleep(1.0)
            assert leadership.problem() == "the lease is held by pair-b_1"
            assert await lease.problems(5.0) == {"the lease is held by pair-b_1"}

    virtual_time.run(test())


def test_a_call_waits_until_the_lease_is_held_here() -> None:
    async def calls() -> None:
        lease = Lease(patience_seconds=5)
        call = asyncio.create_task(lease.world.filter(WEB, ["a"]))
        await asyncio.sleep(0.01)
        assert not call.done()
        await held(lease)
        assert (await call)["NodeNames"] == ["a"]

    asyncio.run(calls())


def test_no_verb_is_answered_while_another_works() -> None:
    async def test(lease: Lease) -> None:
        await lease.read(THEIRS)
        refusal = "extender-service places no pods now: the lease is held by pair-b_1"
        assert (await lease.world.filter(WEB, ["a"]))["Error"] == refusal
        assert await lease.world.bind(WEB, "a") == refusal
        for verb, body in (("prioritize", {"NodeNames": ["a"]}), ("preempt", {"NodeNameToMetaVictims": {}})):
            answer = await lease.world.post(verb, {"Pod": {"metadata": {"name": "web", "uid": "u"}}, **body})
            assert answer.status_code == 503
        assert lease.world.pods.bound == []

    run(test)


def test_bindings_that_wait_are_undone_and_expectations_dropped_when_it_is_lost() -> None:
    async def test(lease: Lease) -> None:
        world = lease.world
        await held(lease)
        await world.filter(WEB, ["a"])
        binding, _ = await waiting(lease)
        assert world.cpu_milli("a") == 2000
        await lease.read(THEIRS)
        assert await binding == "binding default/waits to a: the lease is gone"
        assert world.cpu_milli("a") == 0

    run(test)


def test_a_pod_that_may_go_on_once_nobody_knows_who_leads_is_not_bound() -> None:
    async def test(lease: Lease) -> None:
        await held(lease)
        binding, pod = await waiting(lease)
        lease.clock.pass_seconds(2.0)
        pod.allow("Doorman")
        assert "who holds the lease was read 2.0 s ago" in await binding
        assert lease.world.pods.bound == []
        assert lease.world.cpu_milli("a") == 0

    run(test)


def test_a_binding_on_its_way_to_the_api_server_runs_to_its_end() -> None:
    async def test(lease: Lease) -> None:
        world = lease.world
        await held(lease)
        world.pods.hold = Hold()
        binding = asyncio.create_task(world.bind(WEB, "a"))
        await world.pods.hold.arrived.wait()
        await lease.read(THEIRS)
        world.pods.hold.go_on.set()
        assert await binding == ""
        assert world.cpu_milli("a") == 1000

    run(test)


async def waiting(lease: Lease) -> tuple[asyncio.Task[str], WaitingPod]:
    """A pod whose binding waits in Permit."""
    world = lease.world
    profile = world.profile
    profile.permit = (Doorman(None, Handle(world.cluster, world.pods)),)
    waits = world.pods.put(make_pod("waits", requests={"cpu": "1"}))
    binding = asyncio.create_task(world.bind(waits, "a"))
    async with asyncio.timeout(5):
        while not len(profile.waiting_pods):
            await asyncio.sleep(0.001)
    [pod] = profile.waiting_pods
    return binding, pod


async def held(lease: Lease) -> None:
    """The lease has been held here for long enough."""
    await lease.read(OURS)
    lease.clock.pass_seconds(2.0)
    assert await lease.read() is None

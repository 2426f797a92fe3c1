import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender_service.kube.api_errors import ApiError, ApiStatus, UnreachableError
from extender_service.kube.writing.leases import LeaseRecord
from extender_service.scheduler.leader_election import ElectionTimes, LeaderElector
from tests.support import virtual_time

TIMES = ElectionTimes()
CONFLICT = ApiStatus(409, "Conflict", "the object has been modified")
NOT_FOUND = ApiStatus(404, "NotFound", "not found")
ANSWER_SECONDS = 5.0


@dataclass
class StoredLease:
    """The lease as the API server has it, and how the API server behaves towards each replica."""

    record: LeaseRecord | None = None
    version: int = 0
    history: list[tuple[float, str]] = field(default_factory=list)

    def write(self, record: LeaseRecord, version: int | None) -> int:
        """Write the record over the one of that version; None creates it."""
        if version is None and self.record is not None:
            raise ApiError(CONFLICT)
        if version is not None and self.record is None:
            raise ApiError(NOT_FOUND)
        if version is not None and version != self.version:
            raise ApiError(CONFLICT)
        self.record = record
        self.version += 1
        if not self.history or self.history[-1][1] != record.holder_identity:
            self.history.append((virtual_time.time(), record.holder_identity))
        return self.version


class Replica:
    """A replica, its election, and the network between it and the API server."""

    def __init__(self, lease: StoredLease, name: str, times: ElectionTimes = TIMES) -> None:
        self.identity = name
        self.there_seconds = self.back_seconds = 0.0
        self.is_cut_off = False
        self.wrote = 0
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._lease = lease
        self._version = 0
        self.elector = LeaderElector(self, times, clock=virtual_time.time, sleep=self._sleep, draw=Random(name).random)
        self.task = asyncio.create_task(self._run())
        self.has_ended = False

    def __str__(self) -> str:
        return "kube-system/kube-scheduler"

    @property
    def may_write(self) -> bool:
        return self.elector.problem() is None and self._thawed.is_set()

    def freeze(self) -> None:
        self._thawed.clear()

    def thaw(self) -> None:
        self._thawed.set()

    def heal(self) -> None:
        self.is_cut_off, self.there_seconds, self.back_seconds = False, 0.0, 0.0

    def kill(self) -> None:
        self.task.cancel()
        self.freeze()

    async def stop(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task
        await self.elector.release()

    async def get(self) -> LeaseRecord | None:
        await self._travel(self.there_seconds)
        record, version = self._lease.record, self._lease.version
        await self._travel(self.back_seconds)
        self._version = version
        return record

    async def create(self, record: LeaseRecord) -> None:
        self._version = await self._write(record, None)

    async def update(self, record: LeaseRecord) -> None:
        self._version = await self._write(record, self._version)

    def now(self) -> str:
        return f"{virtual_time.time():.6f}"

    async def _write(self, record: LeaseRecord, version: int | None) -> int:
        self.wrote += 1
        await self._travel(self.there_seconds)
        version = self._lease.write(record, version)
        await self._travel(self.back_seconds)
        return version

    async def _travel(self, seconds: float) -> None:
        if self.is_cut_off or seconds >= ANSWER_SECONDS:
            await self._sleep(ANSWER_SECONDS)
            raise UnreachableError("nothing came")
        await asyncio.sleep(seconds)
        await self._thawed.wait()

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._thawed.wait()

    async def _run(self) -> None:
        await self.elector.acquire()
        await self.elector.renew()
        self.has_ended = True


def run(test: Callable[[StoredLease], object]) -> None:
    virtual_time.run(test(StoredLease()))  # type: ignore[arg-type]


async def until(condition: Callable[[], bool], seconds: float) -> float:
    """Wait for a condition; returns after how long it held."""
    begun = virtual_time.time()
    while not condition():
        assert virtual_time.time() - begun <= seconds, "too late"
        await asyncio.sleep(0.05)
    return virtual_time.time() - begun


def test_the_first_replica_leads_at_once_and_stays() -> None:
    async def test(lease: StoredLease) -> None:
        first = Replica(lease, "a")
        await asyncio.sleep(0.1)
        second = Replica(lease, "b")
        assert first.may_write
        await asyncio.sleep(600)
        assert first.may_write
        assert not second.may_write
        assert second.elector.holder == "a"
        assert lease.record is not None
        assert (lease.record.holder_identity, lease.record.lease_duration_seconds, lease.record.transitions) == (
            "a",
            15,
            0,
        )
        assert float(lease.record.acquire_time) < 1
        assert float(lease.record.renew_time) > 597
        assert first.wrote == pytest.approx(300, abs=2)  # every 2 s, without reading

    run(test)


def test_a_killed_leader_is_replaced_once_its_lease_has_ended() -> None:
    async def test(lease: StoredLease) -> None:
        first, second = Replica(lease, "a"), Replica(lease, "b")
        await asyncio.sleep(100)
        first.kill()
        assert lease.record is not None
        renewed_at = float(lease.record.renew_time)
        await until(lambda: second.may_write, 25)
        assert 15 <= virtual_time.time() - renewed_at <= 20
        assert lease.record.transitions == 1
        assert float(lease.record.acquire_time) >= renewed_at + 15

    run(test)


@pytest.mark.parametrize("is_answered", [True, False], ids=["between renewals", "while a renewal is not answered"])
def test_a_stopped_leader_is_replaced_without_waiting(is_answered: bool) -> None:
    async def test(lease: StoredLease) -> None:
        first, second = Replica(lease, "a"), Replica(lease, "b")
        await asyncio.sleep(101)
        if not is_answered:
            first.back_seconds = 3.0
            before = lease.version
            await until(lambda: lease.version > before, 3)
            first.back_seconds = 0.0
        await first.stop()
        assert not first.may_write
        assert lease.record is not None
        assert lease.record.holder_identity == ""
        assert lease.record.lease_duration_seconds == 1
        assert await until(lambda: second.may_write, 5) <= 4.5
        assert lease.record.transitions == 1

    run(test)


def test_a_leader_that_was_frozen_may_not_write_when_it_goes_on_and_ends_once_it_reads_why() -> None:
    async def test(lease: StoredLease) -> None:
        first, second = Replica(lease, "a"), Replica(lease, "b")
        await asyncio.sleep(100)
        first.freeze()
        await asyncio.sleep(30)
        assert second.may_write
        first.thaw()
        assert re.fullmatch(
            r"the lease kube-system/kube-scheduler was renewed \d+\.\d s ago, and a leader may write for 10 s",
            first.elector.problem() or "",
        )
        await until(lambda: first.has_ended, 3)
        assert first.elector.holder == "b"

    run(test)


def test_a_leader_that_was_frozen_alone_goes_on_after_it_has_renewed_its_lease() -> None:
    async def test(lease: StoredLease) -> None:
        first = Replica(lease, "a")
        await asyncio.sleep(100)
        first.freeze()
        await asyncio.sleep(60)
        first.thaw()
        assert not first.may_write
        await until(lambda: first.may_write, 3)
        assert not first.has_ended
        assert first.elector.slow_paths == 1

    run(test)


def test_a_leader_that_is_cut_off_stops_writing_before_another_leads_and_ends() -> None:
    async def test(lease: StoredLease) -> None:
        first, second = Replica(lease, "a"), Replica(lease, "b")
        await asyncio.sleep(100)
        first.is_cut_off = True
        stopped = await until(lambda: not first.may_write, 12)
        assert not second.may_write
        ended = await until(lambda: first.has_ended, 12)
        assert 8 <= stopped <= 10.1
        assert stopped + ended <= 17.1  # the deadline, and a request that begins just before
        await until(lambda: second.may_write, 15)

    run(test)


def test_a_lease_that_another_took_by_force_ends_the_leader() -> None:
    async def test(lease: StoredLease) -> None:
        first = Replica(lease, "a")
        await asyncio.sleep(10)
        lease.write(LeaseRecord("somebody_else", 15, "now", "now", 7), lease.version)
        await until(lambda: first.has_ended, 3)
        assert not first.may_write

    run(test)


def test_a_lease_that_was_deleted_is_made_again() -> None:
    async def test(lease: StoredLease) -> None:
        first = Replica(lease, "a")
        await asyncio.sleep(10)
        lease.record = None
        await asyncio.sleep(3)
        assert first.may_write
        assert lease.record is not None

    run(test)


def test_a_leader_whose_election_hangs_is_not_healthy() -> None:
    async def test(lease: StoredLease) -> None:
        first = Replica(lease, "a")
        await asyncio.sleep(10)
        first.freeze()
        await asyncio.sleep(30)
        assert first.elector.health_problem() is None
        await asyncio.sleep(7)
        problem = "failed election to renew leadership on lease kube-system/kube-scheduler"
        assert first.elector.health_problem() == problem

    run(test)


def test_a_leader_writes_no_longer_than_its_lease_says() -> None:
    # 1.9 s is written as 1 s.
    assert ElectionTimes(1.9, 1.5, 0.3).writing_seconds == 1
    assert ElectionTimes().writing_seconds == 10


FAULTS = st.tuples(
    st.sampled_from(["freeze", "thaw", "cut off", "heal", "slow there", "slow back", "kill", "stop", "start"]),
    st.integers(0, 2),
    st.floats(0.1, 20.0),
)


class Replicas:
    """Several replicas, to which faults happen."""

    def __init__(self, lease: StoredLease) -> None:
        self.all = [Replica(lease, f"replica-{number}") for number in range(3)]
        self._lease = lease
        self._places = [*self.all]

    async def suffer(self, what: str, index: int, seconds: float) -> None:
        """Let a fault happen to one of three replicas."""
        each = self._places[index]
        acts: dict[str, Callable[[], object]] = {
            "freeze": each.freeze,
            "thaw": each.thaw,
            "cut off": lambda: setattr(each, "is_cut_off", True),
            "heal": each.heal,
            "slow there": lambda: setattr(each, "there_seconds", seconds / 3),
            "slow back": lambda: setattr(each, "back_seconds", seconds / 3),
            "kill": each.kill,
            "start": lambda: self.start_again(index),
        }
        if what == "stop":
            await each.stop()
        else:
            acts[what]()
        await asyncio.sleep(seconds)

    def start_again(self, index: int) -> None:
        self._places[index].kill()
        self._places[index] = Replica(self._lease, f"replica-{len(self.all)}")
        self.all.append(self._places[index])

    async def watch(self) -> None:
        """Fail if two may write at the same time."""
        while True:
            writers = [each.identity for each in self.all if each.may_write]
            assert len(writers) <= 1, writers
            await asyncio.sleep(0.05)


@settings(deadline=None, max_examples=150)
@given(st.lists(FAULTS, max_size=25))
def test_whatever_happens_at_most_one_may_write_and_in_the_end_one_does(faults: list[tuple[str, int, float]]) -> None:
    async def test(lease: StoredLease) -> None:
        replicas = Replicas(lease)

        async def act() -> None:
            for fault in faults:
                await replicas.suffer(*fault)
            for index in range(3):
                replicas.start_again(index)
            await until(lambda: any(each.may_write for each in replicas.all[-3:]), 25)

        watching, acting = asyncio.create_task(replicas.watch()), asyncio.create_task(act())
        done, _ = await asyncio.wait([watching, acting], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        others = [watching, *(each.task for each in replicas.all)]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    run(test)

"""A program that keeps more than it has to do is reported."""

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from extender_service.cluster.debugging.table_sizes import TableSize
from extender_service.queue.in_flight_events import POD_POPPED
from extender_service.queue.waiting_queues import ACTIVE
from extender_service.scheduling.under_way import UnderWay
from tests.support.objects import cluster_of, make_node, make_pod
from tests.worlds.api_server.kinds import PODS
from tests.worlds.api_server.server import ApiServer
from tests.worlds.invariants.insides import scheduler_insides, service_insides
from tests.worlds.invariants.observed import Observed
from tests.worlds.invariants.programs.bounds import AtRest, ExpectedPods, WithinBounds
from tests.worlds.scenarios import Scenario, ScheduledCluster
from tests.worlds.simulation.clocks import MachineClocks
from tests.worlds.simulation.process import Process
from tests.worlds.simulation.world import World


def tasks_reported(count: int) -> list[str]:
    """What is said of a program with so many tasks, in a cluster without pods."""

    async def program(_: object) -> None:
        await asyncio.gather(*(asyncio.sleep(100.0) for _ in range(count)))

    world = World(1)
    process = Process(world, "replica-0", program)
    observed = Observed(world, ApiServer(MachineClocks(world.timeline).wall, Random(1)), [process])
    WithinBounds(observed)
    process.start()
    world.run(11.0)
    return observed.violations.lines()


def test_too_many_tasks_are_reported() -> None:
    assert tasks_reported(90) == []
    assert tasks_reported(100) == ["10.000000 within bounds: replica-0 has 101 tasks, more than 100"]


def in_flight_reported(uids: list[str], monkeypatch: pytest.MonkeyPatch, written: tuple[str, ...] = ()) -> list[str]:
    """What is said of four pods in flight where there were three, while pods with these UIDs are being bound, and
    others are written about."""
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.4, pods=3))

    def pop() -> None:
        insides = scheduler_insides(cluster.replicas[0])
        assert insides is not None
        monkeypatch.setattr(insides.queue, "in_flight_counts", lambda: {POD_POPPED: 4})
        binding = UnderWay("node-0", cast(Any, None))
        bound = next(cluster.api_servers.model.etcd.all(PODS)).value["metadata"]["uid"]
        insides.engine.binder._under_way.update((bound if uid == "bound" else uid, binding) for uid in uids)
        insides.scheduler._writes._last.update((uid, cast(Any, None)) for uid in written)

    cluster.world.timeline.call_at(19.99, pop)
    cluster.world.timeline.call_at(20.01, cluster.world.end)
    cluster.run()
    return [line for line in cluster.holds.observed.violations.lines() if "within bounds" in line]


def test_pods_that_have_gone_are_in_flight_as_long_as_they_are_being_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_flight_reported(["gone"], monkeypatch) == []
    assert in_flight_reported([], monkeypatch, written=("gone",)) == []
    too_many = ["20.000000 within bounds: replica-0 has 4 pods in flight, more than 3"]
    assert in_flight_reported([], monkeypatch) == in_flight_reported(["bound"], monkeypatch) == too_many


@pytest.mark.parametrize(("nodes", "most"), [(5, 2120), (60, 2520)])
def test_events_that_are_kept_for_pods_in_flight_are_40_for_each_pod_and_node(
    nodes: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.6, pods=3, nodes=nodes))

    def keep(events: int) -> None:
        insides = scheduler_insides(cluster.replicas[0])
        assert insides is not None
        monkeypatch.setattr(insides.queue, "in_flight_counts", lambda: {"NodeAdd": events})

    cluster.world.timeline.call_at(19.99, lambda: keep(most))
    cluster.world.timeline.call_at(29.99, lambda: keep(most + 1))
    cluster.world.timeline.call_at(30.01, cluster.world.end)
    cluster.run()
    reported = [line for line in cluster.holds.observed.violations.lines() if "within bounds" in line]
    assert reported == [f"30.000000 within bounds: replica-0 has {most + 1} events kept for them, more than {most}"]


def nominations_reported(count: int, deletes: bool = False, cuts: bool = False) -> list[str]:
    """What is said of so many nominations where there were three pods; one may be deleted, cut off from the watch."""
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.4, pods=3))

    def nominate() -> None:
        insides = scheduler_insides(cluster.replicas[0])
        assert insides is not None
        insides.queue.nominator._node_of.update((f"uid-{number}", "node-0") for number in range(count))

    def delete() -> None:
        etcd = cluster.api_servers.model.etcd
        etcd.delete(PODS, next(etcd.all(PODS)).key)

    timeline = cluster.world.timeline
    if cuts:
        timeline.call_at(18.0, lambda: cluster.world.network.cut("replica-0", "api-server"))
    if deletes:
        timeline.call_at(18.5, delete)
    timeline.call_at(19.5, nominate)
    cluster.run()
    return [line for line in cluster.holds.observed.violations.lines() if "within bounds" in line]


def test_nominations_of_pods_that_never_were_are_reported() -> None:
    assert nominations_reported(0) == []
    assert nominations_reported(4) == ["20.000000 within bounds: replica-0 has 4 nominations, more than 3"]


def test_a_pod_counts_until_the_watch_shows_that_it_has_gone() -> None:
    assert nominations_reported(4, deletes=True, cuts=True) == []
    assert nominations_reported(4, deletes=True) == [
        "20.000000 within bounds: replica-0 has 4 nominations, more than 3"
    ]


class ExpectingService:
    """A service that expects a pod on a node for good, and the clock of its machine."""

    def __init__(self, *, is_known: bool = True) -> None:
        self.clock = 0.0
        self.cluster = cluster_of([make_node("node")])
        if is_known:
            self.cluster.apply_pod(make_pod("a", uid="a"))
        self.placement = self.cluster.placements.place(make_pod("a", uid="a"), "a", "node")
        expectations = SimpleNamespace(_expected_seconds=600.0)
        self._insides = SimpleNamespace(cluster=self.cluster, extender=SimpleNamespace(expectations=expectations))
        self.loop = SimpleNamespace(stops=0, _busy_until=0.0)
        self._process = SimpleNamespace(loop=self.loop, clocks=SimpleNamespace(monotonic=lambda: self.clock))
        self._rule = ExpectedPods()

    def look(self, at: float) -> list[str]:
        """What is said of it at a time."""
        self.clock = at
        return [*self._rule.overdue(cast(Any, self._process), cast(Any, self._insides), at)]


def test_a_pod_that_is_expected_for_longer_than_ten_minutes_is_reported_once() -> None:
    service = ExpectingService()
    assert service.look(0.0) == service.look(610.0) == service.look(622.0) == []
    assert service.look(623.0) == ["expects pod a on node for 623 s"]
    assert service.look(633.0) == []


def test_so_is_one_that_the_watch_has_not_shown_after_seconds() -> None:
    service = ExpectingService(is_known=False)
    assert service.look(0.0) == service.look(27.0) == []
    assert service.look(28.0) == ["expects pod a on node for 28 s, which its watch does not show"]


def test_one_that_the_watch_has_shown_meanwhile_may_be_expected_longer() -> None:
    service = ExpectingService(is_known=False)
    assert service.look(0.0) == []
    service.cluster.apply_pod(make_pod("a", uid="a"))
    assert service.look(40.0) == []


def test_so_may_one_that_is_being_bound_or_expected_anew_and_any_while_the_service_is_held_up() -> None:
    being_bound, expected_anew, frozen = (ExpectingService(is_known=False) for _ in range(3))
    assert being_bound.look(0.0) == expected_anew.look(0.0) == frozen.look(0.0) == []
    being_bound.placement.assume()
    assert being_bound.look(40.0) == []
    expected_anew.cluster.placements.place(make_pod("a", uid="a"), "a", "node")
    assert expected_anew.look(40.0) == []
    frozen.loop.stops = 1
    assert frozen.look(20.0) == []
    frozen.loop.stops = 0
    assert frozen.look(40.0) == []


@pytest.mark.parametrize("ends", [True, False])
def test_a_pod_that_was_never_there_is_expected_in_a_world_for_seconds_only(ends: bool) -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=1.0, pods=0, mode="replace"))

    def expect() -> None:
        assert cluster.service is not None
        service = service_insides(cluster.service)
        assert service is not None
        placement = service.cluster.placements.place(make_pod("ghost", uid="ghost"), "ghost", "node-0")
        if ends:
            service.extender.expectations.expect(placement)

    cluster.world.timeline.call_at(18.0, expect)
    cluster.run()
    found = [line for line in cluster.holds.observed.violations.lines() if " expects " in line]
    text = "50.000000 within bounds: service expects pod ghost on node-0 for 30 s, which its watch does not show"
    assert found == ([] if ends else [text])


def at_rest(cluster: ScheduledCluster) -> list[str]:
    """What is said of a world at rest."""
    return [*AtRest().problems(cluster.holds.observed)]


@pytest.fixture
def settled() -> ScheduledCluster:
    """A world that has bound its pods."""
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, pods=20, mode="replace"))
    cluster.run()
    return cluster


def test_a_world_that_has_settled_is_at_rest(settled: ScheduledCluster) -> None:
    assert at_rest(settled) == []


def test_tasks_and_connections_that_stay_are_reported_however_many_pods_there_were(
    settled: ScheduledCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = settled.replicas[0].loop
    monkeypatch.setattr(loop, "tasks", lambda: [None] * 101)
    open_ends(settled, 81)
    assert at_rest(settled) == [
        "replica-0 has 101 tasks, more than 100",
        "replica-0 has 81 connections, more than 80",
    ]


def open_ends(cluster: ScheduledCluster, count: int) -> None:
    """Let the first replica have so many connections."""
    loop = cluster.replicas[0].loop
    end: Any = SimpleNamespace(loop=loop, is_gone=False)
    others = [each for each in cluster.world.network._transports if each.loop is not loop]
    cluster.world.network._transports = [*others, *[end] * count]


@pytest.mark.parametrize("in_flight", [0, 5])
def test_pods_that_are_active_or_in_flight_need_some(
    settled: ScheduledCluster, in_flight: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    insides = scheduler_insides(settled.replicas[0])
    assert insides is not None
    monkeypatch.setattr(insides.queue, "pending_counts", lambda: {ACTIVE: 5})
    monkeypatch.setattr(insides.queue, "in_flight_counts", lambda: {POD_POPPED: in_flight})
    open_ends(settled, 91)
    assert (at_rest(settled) == []) is bool(in_flight)


@pytest.mark.parametrize(
    ("entries", "limit", "is_fine"), [(4, 4, True), (5, 4, False), (50, None, True), (5000, None, False)]
)
def test_a_table_that_keeps_more_than_it_may_is_reported(
    settled: ScheduledCluster, entries: int, limit: int | None, is_fine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [TableSize("leaks", entries, limit)]
    monkeypatch.setattr("tests.worlds.invariants.programs.bounds.table_sizes", lambda _: sizes)
    found = at_rest(settled)
    assert (found == []) is is_fine
    assert all(f"has {entries} entries in leaks, more than " in line for line in found)

"""A reservation that does not end once is reported."""

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import cast

import pytest

from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from tests.support.objects import make_pod
from tests.worlds.api_server.kinds import PODS
from tests.worlds.api_server.server import ApiServer
from tests.worlds.invariants.ledger import Ledger
from tests.worlds.invariants.observed import Observed
from tests.worlds.invariants.pods.reservations import ReservationsBalanced, ReservationsEnded
from tests.worlds.scenarios import Scenario, ScheduledCluster
from tests.worlds.simulation.clocks import MachineClocks
from tests.worlds.simulation.process import Process
from tests.worlds.simulation.world import World

POD, OTHER = make_pod("a"), make_pod("b")
FIRST, SECOND, OTHERS_STATE = CycleState(POD), CycleState(POD), CycleState(OTHER)


def reported(
    act: Callable[[Ledger], None], api_server: ApiServer | None = None, *, is_service: bool = False
) -> list[str]:
    """What is said of what a process does with the plugin."""
    ledgers = []

    async def program(_: object) -> None:
        ledgers.append(Ledger(None, cast(Handle, None)))
        act(ledgers[0])
        await world_end.wait()

    world_end = asyncio.Event()
    world = World(1)
    process = Process(world, "replica-0", program)
    replicas, service = ([], process) if is_service else ([process], None)
    observed = Observed(world, api_server or ApiServer(lambda: 0.0, Random(1)), replicas, service)
    rule = ReservationsBalanced(observed)
    process.start()
    world.run(1.0)
    left = [*ReservationsEnded(rule).problems(observed)]
    return [*(line.partition(": ")[2] for line in observed.violations.lines()), *left]


def test_a_reservation_that_ends_once_is_fine() -> None:
    def act(ledger: Ledger) -> None:
        ledger.reserve(FIRST, POD, "one")
        ledger.unreserve(FIRST, POD, "one")
        ledger.unreserve(FIRST, POD, "one")
        ledger.reserve(SECOND, POD, "two")
        ledger.post_bind(SECOND, POD, "two")
        ledger.unreserve(FIRST, POD, "one")

    assert reported(act) == []


def reserve_twice(ledger: Ledger) -> None:
    ledger.reserve(FIRST, POD, "one")
    ledger.reserve(SECOND, POD, "two")
    ledger.post_bind(SECOND, POD, "two")


def unreserve_what_was_bound(ledger: Ledger) -> None:
    ledger.reserve(FIRST, POD, "one")
    ledger.post_bind(FIRST, POD, "one")
    ledger.unreserve(FIRST, POD, "one")


def unreserve_for_an_earlier_attempt(ledger: Ledger) -> None:
    ledger.reserve(FIRST, POD, "one")
    ledger.unreserve(FIRST, POD, "one")
    ledger.reserve(SECOND, POD, "two")
    ledger.unreserve(FIRST, POD, "one")
    ledger.post_bind(SECOND, POD, "two")


def bind_without(ledger: Ledger) -> None:
    ledger.post_bind(FIRST, POD, "one")


def leave_open(ledger: Ledger) -> None:
    ledger.reserve(FIRST, POD, "one")


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (reserve_twice, "replica-0: pod default/a is reserved once more, though it is on one (reserve on two)"),
        (unreserve_what_was_bound, "replica-0: pod default/a is unreserved, though it was bound (unreserve on one)"),
        (
            unreserve_for_an_earlier_attempt,
            "replica-0: pod default/a is unreserved for an earlier attempt, while one has it on two (unreserve on one)",
        ),
        (bind_without, "replica-0: pod default/a is bound without a reservation of this attempt (post_bind on one)"),
        (leave_open, "replica-0 has pod uid-of-a reserved on one"),
    ],
)
def test_one_that_does_not_is_reported(act: Callable[[Ledger], None], text: str) -> None:
    assert reported(act) == [text]


@pytest.mark.parametrize("node_name", ["", "one"])
def test_a_pod_may_be_unreserved_whose_binding_a_backup_takes_back(node_name: str) -> None:
    server = ApiServer(lambda: 0.0, Random(1))
    metadata = {"name": "a", "namespace": "default", "uid": "uid-of-a"}
    server.etcd.put(PODS, "default/a", {"metadata": metadata, "spec": {"nodeName": node_name}, "status": {}})

    def act(ledger: Ledger) -> None:
        ledger.reserve(FIRST, POD, "one")
        server.etcd.restore(server.etcd.save(), bump_revision=1000)
        ledger.post_bind(FIRST, POD, "one")
        ledger.unreserve(FIRST, POD, "one")

    text = "replica-0: pod default/a is unreserved, though it was bound (unreserve on one)"
    assert reported(act, server) == ([text] if node_name else [])


@pytest.mark.parametrize("is_service", [False, True])
@pytest.mark.parametrize("node_name", ["", "one"])
def test_the_service_may_keep_what_it_has_reserved_for_a_pod_that_waits(is_service: bool, node_name: str) -> None:
    server = ApiServer(lambda: 0.0, Random(1))
    value = {"metadata": {"name": "a", "namespace": "default", "uid": POD.metadata.uid}}
    server.etcd.put(PODS, "default/a", {**value, "spec": {"nodeName": node_name}})

    def act(ledger: Ledger) -> None:
        ledger.reserve(FIRST, POD, "one")

    assert bool(reported(act, server, is_service=is_service)) is (bool(node_name) or not is_service)


@pytest.mark.parametrize("uid", ["uid-of-a", "uid-of-b"])
def test_a_binding_may_wait_for_a_write_that_etcd_has_lost(uid: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.worlds.invariants.pods.reservations.wait_for_lost_writes", lambda *_: {uid})
    assert bool(reported(leave_open)) is (uid == "uid-of-b")


def test_what_a_process_had_reserved_ends_with_it() -> None:
    async def program(_: object) -> None:
        ledger = Ledger(None, cast(Handle, None))
        if process.starts == 1:
            ledger.reserve(FIRST, POD, "one")
        await asyncio.sleep(100.0)

    world = World(1)
    process = Process(world, "replica-0", program)
    observed = Observed(world, ApiServer(MachineClocks(world.timeline).wall, Random(1)), [process])
    rule = ReservationsBalanced(observed)
    process.start()
    world.run(1.0)
    process.kill()
    process.start()
    world.run(2.0)
    assert [*ReservationsEnded(rule).problems(observed)] == []


@pytest.mark.parametrize("ends_by", ["post_bind", "unreserve"])
def test_one_that_has_ended_by_a_later_look_is_fine_though_there_is_another_one_then(ends_by: str) -> None:
    ledgers = []

    async def program(_: object) -> None:
        ledgers.append(Ledger(None, cast(Handle, None)))
        await asyncio.sleep(100.0)

    world = World(1)
    process = Process(world, "replica-0", program)
    observed = Observed(world, ApiServer(lambda: 0.0, Random(1)), [process])
    rule = ReservationsBalanced(observed)
    process.start()
    world.run(1.0)
    (ledger,) = ledgers
    look = partial(ReservationsEnded(rule).problems, observed)
    ledger.reserve(FIRST, POD, "one")
    ledger.reserve(OTHERS_STATE, OTHER, "one")
    assert len([*look()]) == 2
    getattr(ledger, ends_by)(FIRST, POD, "one")
    ledger.reserve(SECOND, POD, "two")
    assert [*look()] == ["replica-0 has pod uid-of-b reserved on one"]


def test_the_plugin_sees_each_binding_of_a_world() -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, pods=5))
    cluster.run()
    (rule,) = (rule for rule in cluster.holds._always if isinstance(rule, ReservationsBalanced))
    (attempts,) = rule._attempts.values()
    assert len(attempts.ended) == 5
    assert attempts.open == {}

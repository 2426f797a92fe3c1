"""Unexpected lines of logs, ends of programs that nothing explains, and errors that nothing reads are reported."""

import asyncio
import gc
import signal
from collections.abc import Callable, Coroutine
from functools import partial
from random import Random
from typing import Any

import pytest

from extender_service.cluster.sources.stores import PodStore
from extender_service.command.schedule.election import LeaseLostError
from extender_service.kube.types.watched_pods import AnyPod
from extender_service.seams import Machine
from tests.worlds.api_server.server import ApiServer
from tests.worlds.faults.plan import Fault, Plan
from tests.worlds.invariants.observed import Observed
from tests.worlds.invariants.programs.logs import DifferencesEnd, EveryErrorRead, NothingUnexpectedLogged, ProgramsRunOn
from tests.worlds.scenarios import Scenario, ScheduledCluster
from tests.worlds.simulation.clocks import MachineClocks
from tests.worlds.simulation.process import Process
from tests.worlds.simulation.world import World

_FREEZES = (Fault(10.0, "freeze", "replica-0", 4.0),)
_OF_UID_BEFORE = "metadata.uid: Invalid value: 'u': field is immutable"
_NOMINATES_BOUND = "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"


@pytest.fixture
def observed() -> Observed:
    world = World(1)
    return Observed(world, ApiServer(MachineClocks(world.timeline).wall, Random(1)), [])


@pytest.mark.parametrize(
    "line",
    [
        "ERROR an attempt failed unexpectedly pod=a KeyError('x')",
        "WARNING an object cannot be decoded kind=pods",
        'ERROR cannot update a pod error=pods "a" is invalid (422 Invalid) pod=default/a',
        'WARNING failed error=running PreBind plugin "VolumeBinding": list index out of range ms=7.7 node=a',
        "ERROR Task exception was never retrieved ValueError('x')",
        "ERROR preemption failed node=b pod=a KeyError('x')",
    ],
)
def test_a_line_that_no_fault_explains_is_reported(observed: Observed, line: str) -> None:
    observed.world.trace.write("replica-0", line)
    NothingUnexpectedLogged(observed).at_end()
    assert observed.violations.lines() == [f"0.000000 nothing unexpected logged: replica-0: {line}"]


@pytest.mark.parametrize(
    "line",
    [
        "INFO bound a pod",
        'ERROR cannot update a pod error=pods "a" not found (404 NotFound) pod=default/a',
        f'ERROR cannot update a pod error=Pod "a" is invalid: {_OF_UID_BEFORE} (422 Invalid) pod=default/a',
        f'ERROR cannot update a pod error=Pod "a" is invalid: [{_OF_UID_BEFORE}, {_NOMINATES_BOUND}] (422 Invalid)',
        'WARNING failed error=running PreBind plugin "VolumeBinding": try again (409 Conflict) ms=7.7 node=a',
        'WARNING failed error=running PreBind plugin "V": binding volumes: provisioning failed for PVC "c" ms=2',
        "WARNING failed error=binding default/a to b: the pod was asked about on other nodes ms=6448.7 verb=bind",
        'WARNING failed error=running PreBind plugin "P": preempted by DefaultPreemption ms=6.1 node=a pod=b verb=bind',
        "WARNING failed error=extender-service places no pods now: the lease is not held ms=6.1 pod=b verb=filter",
        "ERROR preemption failed node=b pod=a ApiError('it has changed (409 Conflict)')",
        "WARNING cannot acquire or renew the lease error=the object has been modified (409 Conflict) lease=a/b",
        "INFO cannot schedule a pod why=a text with : ERROR in it",
    ],
)
def test_a_line_that_others_in_the_cluster_or_the_setup_explain_is_not(observed: Observed, line: str) -> None:
    observed.world.trace.write("replica-0", line)
    NothingUnexpectedLogged(observed).at_end()
    assert observed.violations.lines() == []


@pytest.mark.parametrize(("at", "is_expected"), [(100.0, True), (401.0, False)])
@pytest.mark.parametrize(
    "text",
    [
        "ERROR lost the leader lease holder=b",
        "WARNING nodes: nothing came for 6 s; next watch in 0.0 s",
        "WARNING pods: slow down (429 TooManyRequests); the watch goes on, next list in 1.0 s",
        "WARNING cannot acquire or renew the lease error=no answer came within 5 s lease=a/b",
        "ERROR cannot update a pod error=the lease is not held pod=default/a",
        f'ERROR cannot update a pod error=Pod "a" is invalid: {_NOMINATES_BOUND} (422 Invalid) pod=default/a',
        "ERROR preemption failed node=b pod=a ApiError('it fails (500 InternalError)')",
        "WARNING failed error=binding default/a to b: try again later (429 TooManyRequests) ms=7.7 node=b verb=bind",
        "WARNING failed error=extender-service does not know the cluster well enough to decide: stale ms=1",
        "WARNING failed error=pod default/a is already bound to b ms=1 node=c pod=default/a verb=bind",
        "WARNING failed error=pod default/a is already bound to b ms=10.3 pod=default/a verb=filter",
        "WARNING failed error=binding default/a to b: not sent: who holds the lease was read 2.1 s ago ms=1 verb=bind",
        'WARNING failed error=running PreBind plugin "VolumeBinding": not sent: the lease is free ms=1006.6 verb=bind',
        "WARNING failed error=binding default/a to b: extender-service was stopped ms=5 node=b pod=default/a verb=bind",
        "WARNING failed error=pod default/a is being bound to b ms=250.1 pod=default/a verb=filter",
        "WARNING failed error=pod default/a is being bound ms=4.1 pod=default/a verb=filter",
        "WARNING failed error=pod default/a may be bound already to b ms=250.1 pod=default/a verb=filter",
        "WARNING failed error=waiting for its turn: the time for this decision is over (--decision-timeout) ms=1",
    ],
)
def test_some_lines_are_explained_only_while_there_are_faults(text: str, at: float, is_expected: bool) -> None:
    assert (reported_of(text, at, _FREEZES) == []) is is_expected


def reported_of(text: str, at: float, faults: Plan, restored_at: float | None = None) -> list[str]:
    """What is said of a line of a world with faults until 300 s, in which etcd may be restored."""
    world = World(1)
    model = ApiServer(MachineClocks(world.timeline).wall, Random(1))
    observed = Observed(world, model, [], calm_from=300.0, faults=faults)
    rule = NothingUnexpectedLogged(observed)
    world.timeline.call_at(at, lambda: world.trace.write("service", text))
    if restored_at is not None:
        world.timeline.call_at(restored_at, lambda: model.etcd.restore(model.etcd.save()))
    world.run(450.0)
    rule.at_end()
    return observed.violations.lines()


@pytest.mark.parametrize(
    "text", ["ERROR lost the leader lease holder=b", "WARNING nodes: nothing came for 6 s; next watch in 0.0 s"]
)
def test_faults_of_the_cluster_itself_explain_none_of_these(text: str) -> None:
    burst = Fault(10.0, "label-burst", "cluster", 2.0, 30.0)
    assert len(reported_of(text, 20.0, (burst,))) == 1
    assert reported_of(text, 20.0, (burst, *_FREEZES)) == []


@pytest.mark.parametrize(
    ("at", "restored_at", "is_expected"),
    [(100.0, 90.0, True), (185.0, 90.0, True), (195.0, 90.0, False), (80.0, 90.0, False), (100.0, None, False)],
)
@pytest.mark.parametrize(
    "text",
    [
        'WARNING failed error=running PreBind plugin "V": binding volumes: it could not find v1.PersistentVolumeClaim',
        'WARNING failed error=running Reserve plugin "V": pod has unbound immediate PersistentVolumeClaims verb=bind',
        "ERROR a pod that is in flight was queued once more, and is dropped pod=default/a",
        "WARNING failed error=pod default/a is no longer bound to b: etcd was restored ms=1 pod=default/a verb=bind",
    ],
)
def test_some_are_explained_only_after_etcd_was_restored(
    text: str, at: float, restored_at: float | None, is_expected: bool
) -> None:
    assert (reported_of(text, at, _FREEZES, restored_at) == []) is is_expected


def compared(*comparisons: tuple[float, str], starts_at: float | None = None, faults: Plan = ()) -> list[str]:
    """What is said of comparisons of a program at some times, each with one difference or none."""
    world = World(1)
    observed = Observed(world, ApiServer(MachineClocks(world.timeline).wall, Random(1)), [], faults=faults)

    def log(difference: str) -> None:
        world.trace.write("replica-0", f"INFO compared the cache with the API server differences={bool(difference):d}")
        if difference:
            world.trace.write("replica-0", f"WARNING the cache differs: {difference}")

    for at, difference in comparisons:
        world.timeline.call_at(at, partial(log, difference))
    if starts_at is not None:
        world.timeline.call_at(starts_at, lambda: world.trace.write("replica-0", "starts"))
    world.run(450.0)
    DifferencesEnd(observed).at_end()
    return observed.violations.lines()


def test_a_difference_of_the_cache_that_stays_is_reported() -> None:
    text = "replica-0: WARNING the cache differs: missed pods (1): default/a, as at 2 comparisons before"
    missed = "missed pods (1): default/a"
    assert compared((10.0, missed), (50.0, missed), (111.0, missed)) == [f"111.000000 differences end: {text}"]


def test_one_that_ends_or_is_another_one_or_is_new_is_not_nor_that_of_a_process_before() -> None:
    missed, other = "missed pods (1): default/a", "missed pods (1): default/b"
    assert compared((10.0, missed), (150.0, missed)) == []
    assert compared((10.0, missed), (50.0, missed), (100.0, missed)) == []
    assert compared((10.0, missed), (50.0, ""), (111.0, missed)) == []
    assert compared((10.0, missed), (50.0, other), (111.0, missed)) == []
    assert compared((10.0, missed), (50.0, missed), (111.0, missed), starts_at=60.0) == []


@pytest.mark.parametrize(
    ("kind", "at", "is_reported"),
    [("stale-cache", 40.0, False), ("stale-cache", 51.0, True), ("lag", 40.0, True)],
)
def test_none_is_while_the_cache_of_an_api_server_is_old(kind: str, at: float, is_reported: bool) -> None:
    gone, fault = "node a: allocatable example.com/gpu is nothing, listed 4", Fault(at, kind, "api-server", 20.0, 50.0)
    assert (compared((10.0, gone), (50.0, gone), (111.0, gone), faults=(fault,)) != []) is is_reported


@pytest.mark.parametrize(
    "text",
    [
        "WARNING failed error=the caller hung up before its request was complete ms=1",
        "WARNING pods: an event cannot be decoded; next list in 0.9 s",
        "ERROR lost the leader lease holder=b",
        f'ERROR cannot update a pod error=Pod "a" is invalid: {_NOMINATES_BOUND} (422 Invalid) pod=default/a',
    ],
)
def test_such_lines_are_reported_without_faults(observed: Observed, text: str) -> None:
    observed.world.trace.write("replica-0", text)
    NothingUnexpectedLogged(observed).at_end()
    assert len(observed.violations.lines()) == 1


@pytest.mark.parametrize(
    "text",
    [
        'ERROR cannot update a pod error=Pod "a" is invalid: [metadata.uid: no, status.x: Invalid value] (422 Invalid)',
        'ERROR cannot update a pod error=Pod "a" is invalid: status.nominatedNodeName: Invalid value (422 Invalid)',
        "ERROR cannot update a pod error=the body is no JSON (400 BadRequest) pod=default/a",
    ],
)
def test_a_request_that_is_wrong_is_reported_with_faults_too(text: str) -> None:
    assert len(reported_of(text, 100.0, _FREEZES)) == 1


def test_an_error_of_a_task_that_nothing_waits_for_is_reported(observed: Observed) -> None:
    async def fail() -> None:
        raise ValueError("lost")

    async def program(_: object) -> None:
        asyncio.create_task(fail())  # noqa: RUF006 - nothing holds it: that is what is tried
        await asyncio.sleep(1.0)

    Process(observed.world, "program", program).start()
    observed.world.run(5.0)
    EveryErrorRead(observed).at_end()
    text = "program: NumberedTask exception was never retrieved ValueError('lost')"
    assert observed.violations.lines() == [f"5.000000 every error read: {text}"]


def test_an_error_of_a_task_in_a_frozen_cycle_is_reported(observed: Observed) -> None:
    """The product freezes what is in memory once it knows the cluster (command/memory/settled_memory.py)."""

    async def fail(holds: list[object]) -> None:
        raise ValueError("lost")

    async def program(_: object) -> None:
        held: list[object] = []
        held.append((held, asyncio.create_task(fail(held))))
        await asyncio.sleep(1.0)
        del held
        gc.freeze()

    Process(observed.world, "program", program).start()
    observed.world.run(5.0)
    EveryErrorRead(observed).at_end()
    assert len(observed.violations.lines()) == 1


def test_an_error_that_is_read_is_not(observed: Observed) -> None:
    async def fail() -> None:
        raise ValueError("seen")

    async def program(_: object) -> None:
        await asyncio.gather(asyncio.create_task(fail()), return_exceptions=True)

    Process(observed.world, "program", program).start()
    observed.world.run(5.0)
    EveryErrorRead(observed).at_end()
    assert observed.violations.lines() == []


def ends_of(main: Callable[[Machine], Coroutine[Any, Any, object]], end: Callable[[Process], None]) -> list[str]:
    """What is said of a program that `end` is called for at 5 s."""
    world = World(1)
    process = Process(world, "replica-0", main)
    observed = Observed(world, ApiServer(MachineClocks(world.timeline).wall, Random(1)), [process])
    process.start()
    world.timeline.call_at(5.0, lambda: end(process))
    world.run(20.0)
    ProgramsRunOn(observed).at_end()
    return [line.partition(": ")[2] for line in observed.violations.lines()]


async def ends_after_a_while(_: Machine) -> None:
    await asyncio.sleep(10.0)


async def ends_at_sigterm(_: Machine) -> None:
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    await told.wait()


def failing(*errors: Exception) -> Callable[[Machine], Coroutine[Any, Any, object]]:
    async def fail(_: Machine) -> None:
        await asyncio.sleep(10.0)
        raise ExceptionGroup("some", [ExceptionGroup("others", errors)])

    return fail


def leave_alone(_: Process) -> None:
    """Nothing happens from outside."""


def terminate(process: Process) -> None:
    process.signal(signal.SIGTERM)


def ask_for_a_dump(process: Process) -> None:
    process.loop.add_signal_handler(signal.SIGUSR2, lambda: None)
    process.signal(signal.SIGUSR2)


@pytest.mark.parametrize(
    ("main", "end"),
    [
        (ends_at_sigterm, terminate),
        (ends_after_a_while, terminate),  # it has no handler
        (ends_after_a_while, Process.kill),
        (failing(LeaseLostError()), leave_alone),
    ],
)
def test_a_program_may_end_by_a_fault_or_as_its_lease_is_lost(
    main: Callable[[Machine], Coroutine[Any, Any, object]], end: Callable[[Process], None]
) -> None:
    assert ends_of(main, end) == []


@pytest.mark.parametrize(
    ("main", "end", "text"),
    [
        (ends_after_a_while, leave_alone, "exits"),
        (ends_after_a_while, ask_for_a_dump, "exits"),
        (failing(KeyError("x")), leave_alone, "fails: ExceptionGroup(ExceptionGroup(KeyError('x')))"),
        (
            failing(LeaseLostError(), KeyError("x")),
            leave_alone,
            "fails: ExceptionGroup(ExceptionGroup(LeaseLostError(), KeyError('x')))",
        ),
    ],
)
def test_a_program_that_ends_otherwise_is_reported(
    main: Callable[[Machine], Coroutine[Any, Any, object]], end: Callable[[Process], None], text: str
) -> None:
    assert ends_of(main, end) == [f"replica-0: {text}"]


def test_a_program_that_fails_once_is_reported_though_it_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=1.5, pods=20))
    apply, errors = PodStore.apply, [KeyError("x")]

    def apply_all_but_one(self: PodStore, obj: AnyPod) -> None:
        if errors and cluster.world.timeline.now > 20.0:
            raise errors.pop()
        apply(self, obj)

    monkeypatch.setattr(PodStore, "apply", apply_all_but_one)
    cluster.run()
    [line] = cluster.problems()
    assert "programs run on: replica-0: fails: " in line
    assert "KeyError('x')" in line

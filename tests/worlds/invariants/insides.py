"""What a running program has in memory, found from the frames of its tasks and of what it is doing.

The program gives nothing away for this. So a test here holds on to what its functions and variables are called.
"""

import inspect
from asyncio import Task
from collections.abc import Callable, Iterator, Mapping
from types import CoroutineType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from extender_service.cluster.sources.api_server import ApiServer
from extender_service.cluster.state.cluster import Cluster
from extender_service.command.schedule.scheduler_program import SchedulerProgram
from extender_service.extender.service import ExtenderService
from extender_service.observability.health import Health
from extender_service.observability.metrics_registry import MetricsRegistry
from extender_service.queue.scheduling_queue import SchedulingQueue
from extender_service.scheduler.leader_election import LeaderElector
from extender_service.scheduler.metrics.pod_resources import PodResourceMetrics
from extender_service.scheduler.scheduler import Scheduler
from extender_service.scheduling.decision import Decision
from extender_service.scheduling.engine import Engine
from tests.worlds.simulation.process import Process

T = TypeVar("T")


class SchedulerInsides:
    """What a process of `schedule` has."""

    def __init__(self, program: SchedulerProgram) -> None:
        parts = program.parts
        self.cluster: Cluster = parts.engine.cluster
        self.api_server: ApiServer = program.api_server
        self.health: Health = program.health
        self.queue: SchedulingQueue = parts.queue
        self.scheduler: Scheduler = parts.scheduler
        self.engine: Engine = parts.engine
        self.metrics: MetricsRegistry = program.metrics
        self.resources: PodResourceMetrics = program.resources
        self.elector: LeaderElector | None = program.candidacy.elector
        self._program = program

    @property
    def is_leading(self) -> bool:
        """Whether it leads, as it knows."""
        return self._program.candidacy.is_leading

    @property
    def has_cache(self) -> bool:
        """Whether it reads the cluster: with delayCacheUntilActive, only the leader does."""
        return self.is_leading or not self._program.delays_cache

    @property
    def has_synced(self) -> bool:
        """Whether it has read the cluster once."""
        return self._program.is_synced


class ServiceInsides:
    """What a process of `serve` has."""

    has_cache = True
    has_synced = True  # it answers no call before

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self.cluster: Cluster = variables["cluster"]
        follow = variables["source"].work[0]
        self.api_server: ApiServer = follow.__self__
        self.health: Health = variables["health"]
        self.engine: Engine = variables["engine"]
        self.extender: ExtenderService = variables["extender"]


def scheduler_insides(process: Process) -> SchedulerInsides | None:
    """Return what a process of `schedule` has; None while it does not run, or has not come so far yet."""
    return _found(process, _schedulers, lambda: _scheduler(process))


def service_insides(process: Process) -> ServiceInsides | None:
    """Return what a process of `serve` has; None while it does not run, or has not come so far yet."""
    return _found(process, _services, lambda: _service(process))


_schedulers: WeakKeyDictionary[Process, tuple[int, SchedulerInsides]] = WeakKeyDictionary()
_services: WeakKeyDictionary[Process, tuple[int, ServiceInsides]] = WeakKeyDictionary()


def _found(
    process: Process, known: WeakKeyDictionary[Process, tuple[int, T]], find: Callable[[], T | None]
) -> T | None:
    """Return what was found in this process before, or find it: frames are looked through once for each start."""
    if process.outcome is not None:
        return None
    starts, insides = known.get(process, (0, None))
    if starts == process.starts:
        return insides
    found = find()
    if found is not None:
        known[process] = process.starts, found
    return found


def _scheduler(process: Process) -> SchedulerInsides | None:
    variables = _variables(process, "_schedule_with")
    return SchedulerInsides(variables["program"]) if "program" in variables else None


def _service(process: Process) -> ServiceInsides | None:
    variables = _variables(process, "_serve_from")
    return ServiceInsides(variables) if "health" in variables else None


def _variables(process: Process, function: str) -> Mapping[str, Any]:
    """Return the variables of a function in which the main task of a process waits; none if it does not."""
    main = process._task
    # Until a process that was started again comes to its program, this is the task of the one before.
    if main is not None and main.get_loop() is process.loop:
        for coroutine in awaited_by(main):
            if coroutine.cr_code.co_name == function and coroutine.cr_frame is not None:
                return coroutine.cr_frame.f_locals
    return {}


def awaited_by(task: Task[Any]) -> "Iterator[CoroutineType[Any, Any, Any]]":
    """Yield the coroutines in which a task waits, from the outermost on."""
    awaited: Any = task.get_coro()
    while isinstance(awaited, CoroutineType):
        yield awaited
        awaited = awaited.cr_await


def decision_being_placed() -> Decision | None:
    """Return by which decision an engine places a pod now, while Reserve runs; None where it places one without."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not Engine.place.__code__:
        frame = frame.f_back
    return None if frame is None else frame.f_locals["decision"]

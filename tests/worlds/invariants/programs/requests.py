"""What holds of the requests of a program: one that hangs holds up no other, and what fails is not tried too often."""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Iterator, Mapping
from types import CodeType, CoroutineType
from typing import Any, Final

from extender_service.kube.connection.client import KubeClient
from extender_service.kube.connection.http_connection import HttpConnection
from extender_service.queue.queued_pod import QueuedPodInfo
from extender_service.queue.scheduling_queue import SchedulingQueue
from tests.worlds.actors.fitting import is_finished
from tests.worlds.api_server.errors import RefusedError
from tests.worlds.api_server.etcd import Change, Item
from tests.worlds.api_server.kinds import CORE_EVENTS, EVENTS, LEASES, PODS, Kind
from tests.worlds.api_server.routing import route
from tests.worlds.invariants.insides import scheduler_insides
from tests.worlds.invariants.observed import Observed
from tests.worlds.simulation.http_face import Served
from tests.worlds.simulation.process import Process

_PACE_SECONDS: Final = 10.0
_MOST_READS: Final = 100
_MOST_TRIES: Final = 30
# Watches show what happens so much later at most.
_SHOWN_SECONDS: Final = 100.0
_WAKE_NO_POD: Final = (LEASES, EVENTS, CORE_EVENTS)
_SECONDS_BETWEEN_LOOKS: Final = 2.0
# A client lets far more requests be under way at once.
_FEW: Final = 10
_BEGINS: Final = (KubeClient._read, KubeClient._write)
_IS_UNDER_WAY: Final = (KubeClient._answer, HttpConnection.body)

_Task = asyncio.Task[Any]


class _Windows:
    """Counts things in windows of ten seconds, one after the other."""

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._counts: Counter[Hashable] = Counter()
        self._exceeded: set[Hashable] = set()
        self._ends_at = 0.0

    def exceeds(self, thing: Hashable, most: int) -> bool:
        """Count a thing; return whether there have been more of it in this window, for the first time."""
        if self._observed.now >= self._ends_at:
            self._counts.clear()
            self._exceeded.clear()
            self._ends_at = self._observed.now + _PACE_SECONDS
        self._counts[thing] += 1
        if self._counts[thing] <= most or thing in self._exceeded:
            return False
        self._exceeded.add(thing)
        return True


class WatchesPaced:
    """A program lists and watches a kind at most a hundred times in each window of ten seconds, whatever fails."""

    name = "watches paced"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._windows = _Windows(observed)
        observed.listen(self._count)

    def _count(self, served: Served) -> None:
        path = served.request.path
        is_read = served.request.method == "GET" and _is_collection(path)
        if is_read and self._windows.exceeds((served.who, path), _MOST_READS):
            text = f"{served.who} lists and watches {path} more than {_MOST_READS} times in {_PACE_SECONDS:g} s"
            self._observed.violated(self, text)

    def at_end(self) -> None:
        """All was counted as it came."""


class WorkPaced:
    """In each window of ten seconds, a scheduler tries a pod thirty times at most, and a program sends a write of a
    kind to an object thirty times at most, whatever fails.

    Where pods leave backoff early, from v1.33 on, an event may have a pod tried again at once. So there, both may
    happen once more for each change in the last 100 s, except of leases, of events, and of pods that stay where they
    are. Of a scheduler that asks extenders, each change of the pod itself excuses one, too: if an extender has refused
    the pod, any event wakes it, also that another reason was written for the last attempt. So does kube-scheduler.
    """

    name = "work paced"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._programs = {program.name: program for program in observed.programs}
        self._followed: set[tuple[str, int]] = set()
        self._asks_extenders: set[str] = set()
        self._windows = _Windows(observed)
        self._changed_at: deque[float] = deque()
        self._pod_changed_at: defaultdict[str, deque[float]] = defaultdict(deque)
        if observed.rules.leaves_backoff_early:
            observed.model.etcd.listeners.append(self._note)
        observed.listen(self._count_write)

    def _note(self, kind: Kind, change: Change) -> None:
        if kind is PODS and _place(change.before) == _place(change.after):
            self._pod_changed_at[change.item.key].append(self._observed.now)
        elif kind not in _WAKE_NO_POD:
            self._changed_at.append(self._observed.now)

    def _most(self, who: str, pod: str) -> int:
        """Return how often a pod may be tried or written now."""
        own = self._recent(self._pod_changed_at[pod]) if who in self._asks_extenders else 0
        return _MOST_TRIES + self._recent(self._changed_at) + own

    def _recent(self, times: deque[float]) -> int:
        while times and times[0] < self._observed.now - _SHOWN_SECONDS:
            times.popleft()
        return len(times)

    def _count_write(self, served: Served) -> None:
        self._follow(served.who)
        method, path = served.request.method, served.request.path
        if method != "GET" and not _is_collection(path):
            target = route(path)
            self._count(served.who, f"sends {method} {path}", target.key if target.plural == PODS.plural else "")

    def _follow(self, who: str) -> None:
        """Follow what a new process tries. It asks the API server before."""
        program = self._programs.get(who)
        if program is None or (who, program.starts) in self._followed:
            return
        insides = scheduler_insides(program)
        if insides is not None:
            self._followed.add((who, program.starts))
            if insides.scheduler._attempts._extenders:
                self._asks_extenders.add(who)
            self._follow_queue(who, insides.queue)

    def _follow_queue(self, who: str, queue: SchedulingQueue) -> None:
        pop = queue.pop

        def pop_and_count() -> QueuedPodInfo | None:
            info = pop()
            if info is not None:
                self._count(who, f"tries pod {info.key}", info.key)
            return info

        queue.pop = pop_and_count  # type: ignore[method-assign]

    def _count(self, who: str, what: str, pod: str) -> None:
        most = self._most(who, pod)
        if self._windows.exceeds((who, what), most):
            self._observed.violated(self, f"{who} {what} more than {most} times in {_PACE_SECONDS:g} s")

    def at_end(self) -> None:
        """All was counted as it came."""


def _place(pod: Item | None) -> tuple[str, bool] | None:
    """Return on which node a pod is, and whether it has ended; None if there is none."""
    return None if pod is None else (pod.value["spec"].get("nodeName", ""), is_finished(pod.value))


def _is_collection(path: str) -> bool:
    try:
        return not route(path).name
    except RefusedError:
        return False


class RequestsApart:
    """No request waits for another one to end, unless ten are under way: so one that hangs holds up no lease.

    Looked at every two seconds: what has begun to wait at one look, and still does at the next one, is reported.
    """

    name = "requests apart"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._waited: set[_Task] = set()
        observed.world.timeline.call_later(_SECONDS_BETWEEN_LOOKS, self._look)

    def _look(self) -> None:
        self._observed.world.timeline.call_later(_SECONDS_BETWEEN_LOOKS, self._look)
        waiting: set[_Task] = set()
        for process in self._observed.programs:
            if process.outcome is None and not process.loop.stops:
                requests = dict(_requests(process))
                if sum(requests.values()) < _FEW:
                    waiting |= {task for task, is_under_way in requests.items() if not is_under_way}
                    self._compare(process, requests)
        self._waited = waiting

    def _compare(self, process: Process, requests: Mapping[_Task, bool]) -> None:
        held_up = [task for task, is_under_way in requests.items() if not is_under_way and task in self._waited]
        if held_up:
            under_way = sum(requests.values())
            text = f"{process.name} has {len(held_up)} requests that wait, though only {under_way} are under way"
            self._observed.violated(self, text)

    def at_end(self) -> None:
        """All was looked at as time went on."""


def _requests(process: Process) -> Iterator[tuple[_Task, bool]]:
    """Yield the tasks of a process that are in a request, and whether that is under way."""
    # Looked up each time: a planted defect gives functions another code.
    begins, is_under_way = ([function.__code__ for function in each] for each in (_BEGINS, _IS_UNDER_WAY))
    for task in process.loop.tasks():
        codes = [*_codes(task.get_coro())]
        # The innermost one itself waits for nothing but the end of the program.
        if any(code in begins for code in codes[:-1]):
            yield task, any(code in is_under_way for code in codes)


def _codes(awaited: Any) -> Iterator[CodeType]:
    """Yield the functions in which a task waits, from the outermost on."""
    while isinstance(awaited, CoroutineType):
        yield awaited.cr_code
        awaited = awaited.cr_await

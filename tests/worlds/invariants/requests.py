"""What holds of the requests of a program: one that hangs holds up no other, and what fails is not tried too often."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from types import CodeType, CoroutineType
from typing import Any, Final

from extender_service.kube.connection.client import KubeClient
from tests.worlds.api_server.errors import RefusedError
from tests.worlds.api_server.routing import route
from tests.worlds.invariants.observed import Observed
from tests.worlds.simulation.http_face import Served
from tests.worlds.simulation.process import Process

_PACE_SECONDS: Final = 10.0
_MOST_IN_THAT: Final = 100
_SECONDS_BETWEEN_LOOKS: Final = 2.0
# A client lets far more requests be under way at once.
_FEW: Final = 10
_BEGINS: Final = (KubeClient._read.__code__, KubeClient._write.__code__)
_IS_UNDER_WAY: Final = KubeClient._ask.__code__

_Task = asyncio.Task[Any]


class WatchesPaced:
    """A program lists and watches a kind at most a hundred times in each window of ten seconds, whatever fails."""

    name = "watches paced"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._counts: Counter[tuple[str, str]] = Counter()
        self._ends_at = 0.0
        observed.listen(self._count)

    def _count(self, served: Served) -> None:
        if self._observed.now >= self._ends_at:
            self._counts.clear()
            self._ends_at = self._observed.now + _PACE_SECONDS
        if served.request.method == "GET" and _is_collection(served.request.path):
            self._counts[served.who, served.request.path] += 1
            if self._counts[served.who, served.request.path] == _MOST_IN_THAT + 1:
                text = f"{served.who} lists and watches {served.request.path} more than {_MOST_IN_THAT} times"
                self._observed.violated(self, f"{text} in {_PACE_SECONDS:g} s")

    def at_end(self) -> None:
        """All was counted as it came."""


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
    for task in process.loop.tasks():
        codes = [*_codes(task.get_coro())]
        # The innermost one itself waits for nothing but the end of the program.
        if any(code in _BEGINS for code in codes[:-1]):
            yield task, _IS_UNDER_WAY in codes


def _codes(awaited: Any) -> Iterator[CodeType]:
    """Yield the functions in which a task waits, from the outermost on."""
    while isinstance(awaited, CoroutineType):
        yield awaited.cr_code
        awaited = awaited.cr_await

"""One measurement: a scheduler on an API server, from its first binding to the event about the last."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.figures import Times
from bench.programs import cpu_seconds
from bench.scheduler.api_servers import ApiServer, Counts
from bench.scheduler.contestants import Launch, Start
from bench.scheduler.disturbances import disturbing
from bench.scheduler.scenes import Scene

_START_SECONDS = 60.0
MEASURED_SECONDS = 20.0
_SECONDS_WITHOUT_EVENT = 2.0  # after the last binding: what is still missing then was dropped
_LOOK_SECONDS = 0.02


@dataclass(frozen=True)
class Pace:
    """What a scheduler did in a measurement.

    CPU time is in milliseconds for a pod, by program; there is none if all pods were bound at the first look. `judged`
    of its placements were compared with kube-scheduler's own plugins, and `worse` of them are none that these choose.
    """

    pods_a_second: float
    bound: int
    wait: Times  # milliseconds from creation to binding
    events_missing: int
    other_events: int
    cpu_milliseconds: Mapping[str, float]
    judged: int = 0
    worse: int = 0


@dataclass(frozen=True)
class _Moment:
    counts: Counts
    cpu_seconds: Mapping[str, float]


def measure(
    server: ApiServer, scene: Scene, start: Start, launch: Launch, limit_seconds: float = MEASURED_SECONDS
) -> Pace | None:
    """Run a scheduler until it has bound the pods, at most for so long. Returns None if it binds fewer than two.

    Raises RuntimeError if the scheduler ends.
    """
    with start(launch) as scheduler:
        programs = {"scheduler": scheduler.pid, **server.processes}

        def now() -> _Moment:
            return _Moment(server.counts(), {name: cpu_seconds(pid) for name, pid in programs.items()})

        begin = _await(now, lambda counts: counts.bound > 0, _START_SECONDS)
        scheduler.require_running()
        with disturbing(server, scene.disturbances):
            end = _await(now, _is_over(scene.wanted), limit_seconds)
        scheduler.require_running()
        waits = server.waits()
    counts = end.counts
    if counts.bound < 2:
        return None
    seconds = max(counts.last_event, counts.last_binding) - counts.first_binding
    bound = counts.bound - begin.counts.bound
    return Pace(
        (counts.bound - 1) / seconds,
        counts.bound,
        Times.of(waits),
        counts.bound - counts.events,
        counts.other_events,
        {name: 1000 * (used - begin.cpu_seconds[name]) / bound for name, used in end.cpu_seconds.items() if bound},
    )


def _await(now: Callable[[], _Moment], is_over: Callable[[Counts], bool], limit_seconds: float) -> _Moment:
    end = time.monotonic() + limit_seconds
    while True:
        moment = now()
        if is_over(moment.counts) or time.monotonic() > end:
            return moment
        time.sleep(_LOOK_SECONDS)


def _is_over(wanted: int) -> Callable[[Counts], bool]:
    """Return whether all is bound and its events are written, or no more of them come."""
    latest, since = 0, time.monotonic()

    def is_over(counts: Counts) -> bool:
        nonlocal latest, since
        if counts.bound + counts.events != latest:
            latest, since = counts.bound + counts.events, time.monotonic()
        if counts.bound < wanted:
            return False
        return counts.events >= counts.bound or time.monotonic() - since > _SECONDS_WITHOUT_EVENT

    return is_over

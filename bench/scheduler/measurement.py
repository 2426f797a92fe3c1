"""One measurement: a scheduler on an API server, from its first write to the event about the last binding.

The first write may be about a pod that fits nowhere, or that needs room: failed attempts and preemption count.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.figures import Times
from bench.programs import cpu_seconds
from bench.scheduler.api_servers import ApiServer, BoundPod, Counts
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

    `wait` is in milliseconds, from a pod's creation, or from the first write if that is later, to its binding; None if
    no pod was bound. CPU time is in milliseconds for a pod, by program; there is none if no pod was bound after the
    first look. `judged` of the placements were compared with kube-scheduler's own plugins, and `worse` of them are none
    that these choose.
    """

    pods_a_second: float
    bound: int
    wait: Times | None
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
) -> Pace:
    """Run a scheduler until it has bound the pods, at most for so long after its first write.

    Raises RuntimeError if the scheduler ends, and TimeoutError if it writes nothing.
    """
    with start(launch) as scheduler:
        programs = {"scheduler": scheduler.pid, **server.processes}

        def now() -> _Moment:
            return _Moment(server.counts(), {name: cpu_seconds(pid) for name, pid in programs.items()})

        begin = _await(now, lambda counts: counts.first_write > 0, _START_SECONDS)
        scheduler.require_running()
        if not begin.counts.first_write:
            raise TimeoutError(f"the scheduler has written nothing for {_START_SECONDS:g} s")
        with disturbing(server, scene.disturbances):
            end = _await(now, _is_over(scene.wanted), limit_seconds)
        scheduler.require_running()
        return _pace(begin, end, server.bound_pods())


def _pace(begin: _Moment, end: _Moment, bound_pods: Sequence[BoundPod]) -> Pace:
    counts = end.counts
    start = counts.first_write
    in_time = [pod for pod in bound_pods if pod.bound_at <= counts.last_binding]  # the others were bound after the end
    after_start = sum(pod.bound_at > start for pod in in_time)  # a binding that is the first write starts the clock
    bound = counts.bound - begin.counts.bound
    return Pace(
        after_start / (max(counts.last_event, counts.last_binding) - start) if after_start else 0.0,
        counts.bound,
        Times.of([1000 * (pod.bound_at - max(pod.created_at, start)) for pod in in_time]) if in_time else None,
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

"""The table of a workload: what each program reached, what it cost, and how `schedule` compares with it."""

import statistics
from collections.abc import Iterator, Mapping, Sequence

from bench.figures import Cell, Row, quantile
from bench.scheduler.contestants import SCHEDULE
from bench.scheduler.measurement import Pace

Paces = Mapping[str, Sequence[Pace | None]]
"""What each program reached in each round, by program. None for a measurement that ended with an error."""


def compared(paces: Paces) -> Iterator[Row]:
    """Yield a row for each program: medians over the rounds, the fewest pods and the most events.

    `failed` is how many measurements ended with an error: they count in `bound` alone, as 0 pods. `CPU` is milliseconds
    for a pod, by process. `schedule is` has the median and the quartiles of how many times faster `schedule` is, and
    `p99 is` the median of its p99 divided by the program's, each of two measurements in one round. `judged` and `worse`
    are sums over the rounds.
    """
    known = {program: [pace for pace in of_rounds if pace is not None] for program, of_rounds in paces.items()}
    processes = [*dict.fromkeys(name for found in known.values() for pace in found for name in pace.cpu_milliseconds)]
    for program, found in known.items():
        waits = [pace.wait for pace in found if pace.wait is not None]
        yield {
            "program": program,
            "pods/s": _median([pace.pods_a_second for pace in found]),
            "wait p50": _median([wait.p50 for wait in waits]),
            "wait p99": _median([wait.p99 for wait in waits]),
            "bound": min((0 if pace is None else pace.bound for pace in paces[program]), default=0),
            "failed": len(paces[program]) - len(found) or None,
            "events missing": max((pace.events_missing for pace in found), default=None),
            "other events": max((pace.other_events for pace in found), default=None),
            **_cpu(processes, [pace.cpu_milliseconds for pace in found if pace.cpu_milliseconds]),
            "judged": sum(pace.judged for pace in found) or None,
            "worse": sum(pace.worse for pace in found) if program == SCHEDULE else None,
            **_ratio(paces.get(SCHEDULE, ()) if program != SCHEDULE else (), paces[program]),
        }


def _cpu(processes: Sequence[str], found: Sequence[Mapping[str, float]]) -> dict[str, Cell]:
    medians = {name: _median([each[name] for each in found]) for name in processes}
    total = sum(median or 0 for median in medians.values())
    return {**{f"CPU {name}": median for name, median in medians.items()}, "CPU all": total or None}


def _ratio(mine: Sequence[Pace | None], theirs: Sequence[Pace | None]) -> dict[str, Cell]:
    pairs = [(ours, its) for ours, its in zip(mine, theirs, strict=False) if ours and its]
    found = [ours.pods_a_second / its.pods_a_second for ours, its in pairs if its.pods_a_second]
    return {
        "p99 is": _median([ours.wait.p99 / its.wait.p99 for ours, its in pairs if ours.wait and its.wait]),
        "schedule is": _median(found),
        "q1": quantile(found, 0.25) if found else None,
        "q3": quantile(found, 0.75) if found else None,
    }


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None

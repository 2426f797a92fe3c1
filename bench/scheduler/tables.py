"""The tables of the comparison."""

from collections.abc import Iterator, Mapping, Sequence

from bench.figures import Row, quantile
from bench.scheduler.contestants import FLOOR, SCHEDULE, STOCK, STOCK_ALL_NODES
from bench.scheduler.measurement import Pace

Paces = Mapping[str, Sequence[Pace | None]]
"""What each program reached in each round, by program. None if it did not bind even two pods."""


def reached(found: Mapping[str, Paces]) -> Iterator[Row]:
    """Yield what each program reached: medians over the rounds, the fewest pods, and the most events."""
    for workload, program, known in _known(found):
        rates = [pace.pods_a_second for pace in known]
        yield {
            "workload": workload,
            "program": program,
            "pods/s": _median(rates),
            "wait p50": _median([pace.wait.p50 for pace in known]),
            "wait p99": _median([pace.wait.p99 for pace in known]),
            "bound": min((pace.bound for pace in known), default=0),
            "events missing": max((pace.events_missing for pace in known), default=None),
            "other events": max((pace.other_events for pace in known), default=None),
        }


def taken(found: Mapping[str, Paces]) -> Iterator[Row]:
    """Yield the CPU time that each program takes for a pod: medians over the rounds."""
    for workload, program, paces in _known(found):
        if known := [pace.cpu_milliseconds for pace in paces if pace.cpu_milliseconds]:
            medians = {name: quantile([each[name] for each in known], 0.5) for name in known[0]}
            yield {"workload": workload, "program": program, **medians, "all": sum(medians.values())}


def ratios(found: Mapping[str, Paces]) -> Iterator[Row]:
    """Yield the quartiles of the ratios of pods a second, each of two programs in one round."""
    for workload, paces in found.items():
        for peer in (STOCK, STOCK_ALL_NODES, FLOOR):
            pairs = zip(paces.get(SCHEDULE, ()), paces.get(peer, ()), strict=False)
            each_round = [mine.pods_a_second / its.pods_a_second for mine, its in pairs if mine and its]
            if each_round:
                yield {
                    "workload": workload,
                    "of": f"{SCHEDULE} / {peer}",
                    "median": quantile(each_round, 0.5),
                    "q1": quantile(each_round, 0.25),
                    "q3": quantile(each_round, 0.75),
                    "rounds": len(each_round),
                }


def _known(found: Mapping[str, Paces]) -> Iterator[tuple[str, str, list[Pace]]]:
    for workload, paces in found.items():
        for program, of_rounds in paces.items():
            yield workload, program, [pace for pace in of_rounds if pace is not None]


def _median(values: Sequence[float]) -> float | None:
    return quantile(values, 0.5) if values else None

"""What a soak has measured, and whether that is good enough."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tests.soak.scheduler import Call

# Growth by this share of the memory in an hour is still called flat: what a leak leaves of each visitor, some 40 of
# which come a second, is more if it is 100 bytes.
MOST_GROWTH_AN_HOUR = 0.05
MOST_SLOWER = 1.5
# Half a minute each, in a soak of ten.
_SPANS = 16
# So much of the pace that was asked for has to be kept.
LEAST_PACE = 0.95


class Figure(NamedTuple):
    """A line of the report; `is_fine` is None for what has no aim."""

    name: str
    value: str
    aim: str = ""
    is_fine: bool | None = None


def as_lines(figures: Sequence[Figure]) -> Iterator[str]:
    """Yield the figures as lines of a table."""
    name = max(len(figure.name) for figure in figures)
    value = max(len(figure.value) for figure in figures)
    for figure in figures:
        verdict = {None: "", True: "ok", False: "MISSED"}[figure.is_fine]
        yield f"{figure.name:{name}}  {figure.value:>{value}}  {figure.aim:18}  {verdict}".rstrip()


class Sample(NamedTuple):
    """The service's memory in use at a time, and the processor time that it has taken so far."""

    at: float
    resident_kib: float
    cpu_seconds: float


class Table(NamedTuple):
    """Entries of one of the service's tables, and the most there may be; None where that follows from the cluster."""

    entries: int
    limit: int | None


def memory(samples: Sequence[Sample], settled_at: float) -> Iterator[Figure]:
    """How memory grew after it had settled: the slope of the straight line that fits best.

    It is put through the least of each of some spans of time: what a burst of events takes for a moment is no leak.
    Memory goes up and down by some percent all the time; what that alone may make of the slope, in 19 of 20 soaks, is
    told with it, and is no leak either.
    """
    later = [sample for sample in samples if sample.at >= settled_at]
    minutes = np.array([sample.at for sample in later]) / 60
    resident = np.array([sample.resident_kib for sample in later])
    spans = [span for span in np.array_split(np.arange(len(later)), _SPANS) if len(span)]
    least = np.array([span[np.argmin(resident[span])] for span in spans])
    line, covariance = np.polyfit(minutes[least] - minutes[0], resident[least], 1, cov=True)
    slope, chance = float(line[0]), 2 * float(np.sqrt(covariance[0, 0]))
    typical = float(np.median(resident))
    most = MOST_GROWTH_AN_HOUR * typical / 60
    yield Figure("memory at first, KiB", f"{samples[0].resident_kib:.0f}")
    yield Figure("memory once settled, least to most, KiB", f"{resident.min():.0f} to {resident.max():.0f}")
    yield Figure("its growth, KiB a minute", f"{slope:.0f} ± {chance:.0f}", f"< {most:.0f}", slope - chance < most)


def processor(samples: Sequence[Sample], window_seconds: float) -> Figure:
    """How busy the service was at first and in the end; unlike calls, that is the same on a machine that is busy."""
    first = [sample for sample in samples if sample.at <= samples[0].at + window_seconds]
    last = [sample for sample in samples if sample.at >= samples[-1].at - window_seconds]
    shares = [(of[-1].cpu_seconds - of[0].cpu_seconds) / (of[-1].at - of[0].at) for of in (first, last)]
    return Figure(
        f"processor time, share of a core in the first and last {window_seconds:.0f} s",
        " / ".join(f"{share:.2f}" for share in shares),
    )


def pace(name: str, count: int, seconds: float, wanted: float) -> Figure:
    """How many of something there were a second."""
    rate = count / seconds
    return Figure(f"{name} a second", f"{rate:.1f}", f">= {LEAST_PACE * wanted:.1f}", rate >= LEAST_PACE * wanted)


def latency(calls: Sequence[Call], begin: float, end: float, window_seconds: float) -> Iterator[Figure]:
    """How long filter calls by name took at first and in the end."""
    first, last = (_times(calls, since, since + window_seconds) for since in (begin, end - window_seconds))
    windows = np.arange(begin, end - window_seconds / 2, window_seconds)
    medians = [_median(calls, since, since + window_seconds) for since in windows.tolist()]
    yield Figure(f"filter calls, p50 of each {window_seconds:.0f} s, ms", " ".join(f"{each:.1f}" for each in medians))
    slowest = [float(np.percentile(times, 99)) for times in (first, last)]
    for when, times, p99 in (("first", first, slowest[0]), ("last", last, slowest[1])):
        yield Figure(f"filter calls, p50 of the {when} {window_seconds:.0f} s, ms", f"{np.median(times):.2f}")
        yield Figure(f"filter calls, p99 of the {when} {window_seconds:.0f} s, ms", f"{p99:.2f}")
    ratio = slowest[1] / slowest[0]
    yield Figure("p99, last / first", f"{ratio:.2f}", f"<= {MOST_SLOWER}", ratio <= MOST_SLOWER)


def _times(calls: Sequence[Call], since: float, until: float) -> list[float]:
    return [call.milliseconds for call in calls if call.verb == "filter" and since <= call.started < until]


def _median(calls: Sequence[Call], since: float, until: float) -> float:
    times = _times(calls, since, until)
    return float(np.median(times)) if times else math.nan


def tables(before: Mapping[str, Table], peak: Mapping[str, Table], after: Mapping[str, Table]) -> Iterator[Figure]:
    """How full the tables are in a service that has seen nothing come, at the end of it all, and once that is gone."""
    for name, table in after.items():
        counts = f"{before[name].entries} / {peak[name].entries} / {table.entries}"
        if table.limit is None:
            is_fine = table.entries == before[name].entries
            yield Figure(f"table {name}", counts, f"{before[name].entries} in the end", is_fine)
        else:
            yield Figure(f"table {name}", counts, f"<= {table.limit}", table.entries <= table.limit)

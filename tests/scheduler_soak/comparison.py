"""Compares what two schedulers have counted on the same script."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from tests.scheduler_soak.measures import Counts
from tests.soak.figures import Figure

MOST_APART = 0.10
_SIGMAS = 3.0
# With hints, a pod's own new condition counts as an event, if the watch shows it before another event moves the pod. So
# this count depends on how long a write takes. The pod stays where it is.
_STAYS = ("UnschedulablePodUpdate", "unschedulable")


def compare(stock: Sequence[Counts], ours: Sequence[Counts]) -> Iterator[Figure]:
    """Yield a figure for each result of attempts, for preemption, and for each event with the queues it led to.

    The counters were read at equal intervals, the last time in the end; they began at 0. In the end, they may differ
    by a tenth of kube-scheduler's, or by three standard deviations of what chance does, if that is more. Were they
    Poisson counts, the deviation of their difference would be sqrt(stock + ours): three of these are less than a tenth
    from about 1,800 on. One event moves many pods at once, though. So the deviation is computed from the differences in
    each interval, too, and the larger one holds.
    """
    totals = [_totals(counts) for counts in stock], [_totals(counts) for counts in ours]
    for name in sorted({name for side in totals for counts in side for name in counts}):
        a, b = ([counts[name] for counts in side] for side in totals)
        tenth, chance = MOST_APART * a[-1], _SIGMAS * max(math.sqrt(a[-1] + b[-1]), _deviation(a, b))
        most = max(tenth, chance)
        aim = f"± {most:.0f} ({'chance' if chance > tenth else '10 %'})"
        yield Figure(name, _shown(a[-1], b[-1]), aim, abs(a[-1] - b[-1]) <= most)
        for event, queue in sorted(stock[-1].incoming.keys() | ours[-1].incoming.keys()):
            if name == f"incoming {event}":
                counts = (side[-1].incoming.get((event, queue), 0) for side in (stock, ours))
                yield Figure(f"    into {queue}", _shown(*counts))


def _totals(counts: Counts) -> Counter[str]:
    totals = Counter({f"attempts {result}": count for result, count in counts.attempts.items()})
    totals.update({f"preemption {what}": count for what, count in counts.preemption.items()})
    for (event, queue), count in counts.incoming.items():
        if (event, queue) != _STAYS:
            totals[f"incoming {event}"] += count
    return totals


def _deviation(stock: Sequence[int], ours: Sequence[int]) -> float:
    """Return the standard deviation of the last difference, as a sum of independent differences of one mean."""
    apart = [b - a for a, b in zip(stock, ours, strict=True)]
    steps = [after - before for before, after in zip([0, *apart], apart, strict=False)]
    if len(steps) < 2:
        return 0.0
    mean = apart[-1] / len(steps)
    variance = sum((step - mean) ** 2 for step in steps) / (len(steps) - 1)
    return math.sqrt(len(steps) * variance)


def _shown(stock: int, ours: int) -> str:
    ratio = f"{ours / stock:.3f}" if stock else "-"
    return f"{stock:>7} {ours:>7} {ratio:>6}"

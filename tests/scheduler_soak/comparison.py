"""Compares what two schedulers have counted on the same script."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping

from tests.scheduler_soak.measures import Counts
from tests.soak.figures import Figure

MOST_APART = 0.10
_SIGMAS = 3.0


def compare(stock: Counts, ours: Counts) -> Iterator[Figure]:
    """Yield a figure for each result of attempts and for each event; what came into each queue follows its event.

    Counts may differ by a tenth of kube-scheduler's. Where counts are small, chance alone makes more of it: if each
    were a Poisson count, their difference would have the standard deviation sqrt(stock + ours). Three of these are
    allowed if that is more than a tenth, which it is below about 1,800.
    """
    yield from _judged("attempts", stock.attempts, ours.attempts)
    yield from _judged("preemption", stock.preemption, ours.preemption)
    by_event = _by_event(stock), _by_event(ours)
    for figure in _judged("incoming", *by_event):
        yield figure
        event = figure.name.partition(" ")[2]
        for queue in sorted({queue for each, queue in stock.incoming.keys() | ours.incoming.keys() if each == event}):
            counts = stock.incoming.get((event, queue), 0), ours.incoming.get((event, queue), 0)
            yield Figure(f"    into {queue}", _shown(*counts))


def _judged(what: str, stock: Mapping[str, int], ours: Mapping[str, int]) -> Iterator[Figure]:
    for label in sorted(stock.keys() | ours.keys()):
        a, b = stock.get(label, 0), ours.get(label, 0)
        tenth, chance = MOST_APART * a, _SIGMAS * math.sqrt(a + b)
        most = max(tenth, chance)
        aim = f"± {most:.0f}" + (" (chance)" if chance > tenth else " (10 %)")
        yield Figure(f"{what} {label}", _shown(a, b), aim, abs(a - b) <= most)


def _by_event(counts: Counts) -> Counter[str]:
    found: Counter[str] = Counter()
    for (event, _), count in counts.incoming.items():
        found[event] += count
    return found


def _shown(stock: int, ours: int) -> str:
    ratio = f"{ours / stock:.3f}" if stock else "-"
    return f"{stock:>7} {ours:>7} {ratio:>6}"

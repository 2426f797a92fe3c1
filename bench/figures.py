"""Statistics of times that were measured in rounds, and columns that compare them with the peer's."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np

T = TypeVar("T")

Cell = str | int | float | bool | None
Row = Mapping[str, Cell]


@dataclass(frozen=True)
class Times:
    """Quantiles of the times of calls, in milliseconds."""

    p50: float
    p99: float

    @classmethod
    def of(cls, milliseconds: Sequence[float]) -> Self:
        """Return the quantiles of single calls; at least one is needed."""
        return cls(quantile(milliseconds, 0.5), quantile(milliseconds, 0.99))

    @classmethod
    def over(cls, rounds: Sequence["Times"]) -> Self:
        """Return the medians of several rounds."""
        return cls(statistics.median(each.p50 for each in rounds), statistics.median(each.p99 for each in rounds))


def quantile(values: Sequence[float], fraction: float) -> float:
    """Return the value at a fraction between the least (0) and the greatest (1), interpolated between two of them."""
    return float(np.quantile(values, fraction))


def alternately(rounds: int, *sides: Callable[[], T]) -> list[list[T]]:
    """Call each side once a round, in alternating order, so that none is always first. Returns the answers by side."""
    answers: list[list[T]] = [[] for _ in sides]
    order = list(range(len(sides)))
    for _ in range(rounds):
        for index in order:
            answers[index].append(sides[index]())
        order.reverse()
    return answers


def over_rounds(rounds: Sequence[Mapping[str, Times]]) -> dict[str, Times]:
    """Return the medians of each case over several rounds. Each round has all cases."""
    return {case: Times.over([of_cases[case] for of_cases in rounds]) for case in rounds[0]}


def compared(service: Times, peer: Times | None, target: float | None = None) -> Row:
    """Return columns of a table: both sides' times, how many times faster the service is, and the target for that."""
    faster = None if peer is None else peer.p50 / service.p50
    return {
        "p50": service.p50,
        "p99": service.p99,
        "peer p50": None if peer is None else peer.p50,
        "peer p99": None if peer is None else peer.p99,
        **at_least("times faster", faster, target),
    }


def at_least(what: str, value: float | None, target: float | None) -> Row:
    """Return columns for a value with a lower bound as its target."""
    return {
        what: value,
        "target": None if target is None else f">= {target:.3g}",
        "reached": None if target is None or value is None else value >= target,
    }


def at_most(what: str, value: float, target: float | None) -> Row:
    """Return columns for a value with an upper bound as its target."""
    return {
        what: value,
        "target": None if target is None else f"<= {target:.3g}",
        "reached": None if target is None else value <= target,
    }

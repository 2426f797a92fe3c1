"""Figures of what was measured in rounds, and how they compare with the peer's."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

T = TypeVar("T")

Cell = str | int | float | bool | None
Row = Mapping[str, Cell]


@dataclass(frozen=True)
class Times:
    """How long calls took, in milliseconds."""

    p50: float
    p99: float

    @classmethod
    def of(cls, milliseconds: Sequence[float]) -> Self:
        """Return the quantiles of single calls, of which there must be one at least."""
        return cls(quantile(milliseconds, 0.5), quantile(milliseconds, 0.99))

    @classmethod
    def over(cls, rounds: Sequence["Times"]) -> Self:
        """Return the medians of several rounds."""
        return cls(statistics.median(each.p50 for each in rounds), statistics.median(each.p99 for each in rounds))


def quantile(values: Sequence[float], fraction: float) -> float:
    """The value at this fraction of the way from the least to the greatest: one of those given, none in between."""
    return sorted(values)[int(fraction * (len(values) - 1) + 0.5)]


def alternately(rounds: int, *sides: Callable[[], T]) -> list[list[T]]:
    """Call each side once a round, back and forth so that none is always the first; returns each side's answers."""
    answers: list[list[T]] = [[] for _ in sides]
    order = list(range(len(sides)))
    for _ in range(rounds):
        for index in order:
            answers[index].append(sides[index]())
        order.reverse()
    return answers


def over_rounds(rounds: Sequence[Mapping[str, Times]]) -> dict[str, Times]:
    """The medians of each case, of several rounds in which all cases were measured."""
    return {case: Times.over([of_cases[case] for of_cases in rounds]) for case in rounds[0]}


def compared(service: Times, peer: Times | None, target: float | None = None) -> Row:
    """Columns of a table: both sides' times, how many times faster the service is, and how many it is to be."""
    faster = None if peer is None else peer.p50 / service.p50
    return {
        "p50": service.p50,
        "p99": service.p99,
        "peer p50": None if peer is None else peer.p50,
        "peer p99": None if peer is None else peer.p99,
        **at_least("times faster", faster, target),
    }


def at_least(what: str, value: float | None, target: float | None) -> Row:
    """Columns for a value that is the better the greater."""
    return {
        what: value,
        "target": None if target is None else f">= {target:.3g}",
        "reached": None if target is None or value is None else value >= target,
    }


def at_most(what: str, value: float, target: float | None) -> Row:
    """Columns for a value that is the better the smaller."""
    return {
        what: value,
        "target": None if target is None else f"<= {target:.3g}",
        "reached": None if target is None else value <= target,
    }

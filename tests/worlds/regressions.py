"""Worlds that once failed, with a sentence each about the defect that they found. A test runs them all."""

from dataclasses import dataclass
from typing import Final

from tests.worlds.scenarios import Scenario


@dataclass(frozen=True)
class Regression:
    """A world that found something. `found` says what, and what mended it."""

    scenario: Scenario
    found: str


REGRESSIONS: Final[tuple[Regression, ...]] = (
    Regression(
        Scenario(seed=200017, minutes=10.0, replicas=2, has_others=True, has_faults=True, mode="replace", until=160.0),
        "the answer to a binding was lost, and reading the pod failed: when the watch showed it bound, `serve` ran "
        "neither PostBind nor Unreserve. Now the watch's word counts, and PostBind runs once that or a read is there",
    ),
)

"""Worlds that once failed, with a sentence each about the defect that they found. A test runs them all."""

from dataclasses import dataclass
from typing import Final

from tests.worlds.scenarios import Scenario


@dataclass(frozen=True)
class Regression:
    """A world that found something. `found` says what, and what mended it."""

    scenario: Scenario
    found: str


REGRESSIONS: Final[tuple[Regression, ...]] = ()

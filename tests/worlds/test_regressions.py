"""Worlds that once failed do not fail any more."""

from tests.worlds.finding.world_run import run_world
from tests.worlds.regressions import REGRESSIONS


def test_what_worlds_have_found_stays_mended() -> None:
    violated = {each.found: run_world(each.scenario)[0].violations for each in REGRESSIONS}
    assert {found: violations for found, violations in violated.items() if violations} == {}

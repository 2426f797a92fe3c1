"""Worlds that once failed do not fail any more."""

import shlex
import subprocess
import sys

import pytest

from tests.worlds.finding.command_line import command
from tests.worlds.regressions import REGRESSIONS, Regression


@pytest.mark.parametrize("regression", REGRESSIONS, ids=lambda each: f"seed {each.scenario.seed}")
def test_what_worlds_have_found_stays_mended(regression: Regression) -> None:
    # In a process of its own, whose hash seed the histories depend on.
    arguments = shlex.split(command(regression.scenario))[1:]
    ended = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    assert ended.returncode == 0, f"{regression.found}\n{ended.stderr}"

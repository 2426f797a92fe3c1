"""Worlds that once failed do not fail any more, and still get into the situation in which they did."""

import re
import shlex
import subprocess
import sys

import pytest

from tests.worlds.finding.command_line import command
from tests.worlds.rerun.regressions import REGRESSIONS, Regression, in_turn, nearest_lines


@pytest.mark.parametrize("regression", REGRESSIONS, ids=lambda each: f"seed {each.scenario.seed}")
def test_what_worlds_have_found_stays_mended(regression: Regression) -> None:
    # In a process of its own, whose hash seed the histories depend on.
    line = command(regression.scenario)
    ended = subprocess.run([sys.executable, *shlex.split(line)[1:]], capture_output=True, text=True)
    assert ended.returncode == 0, f"{regression.found}\n{ended.stderr}"
    if re.search(regression.shows, ended.stdout) is None:
        nearest = "\n".join(nearest_lines(regression.shows, ended.stdout.splitlines()))
        pytest.fail(f"{regression.found}\nThis world does not get there: {regression.shows}\n{line}\n{nearest}")


HISTORY = [
    "8.000000 90 fault: freeze replica-0 for 4 s",
    "8.000000 90 replica-0: freezes",
    "9.000000 95 replica-1: INFO bound a pod node=node-0 pod=default/pod-1",
    "12.000000 99 replica-0: thaws",
    "12.100000 105 replica-0: INFO bound a pod node=node-0 pod=default/pod-2",
]


@pytest.mark.parametrize(
    ("pattern", "is_there"),
    [
        (in_turn(r"(?P<who>replica-\d): freezes", "(?P=who): thaws", "(?P=who): INFO bound"), True),
        (in_turn("replica-0: freezes", "replica-0: INFO bound", "replica-0: thaws"), False),
        (in_turn(r"(?P<who>replica-\d): thaws", "(?P=who): INFO bound a pod .* pod=default/pod-1"), False),
    ],
)
def test_a_pattern_has_lines_in_turn(pattern: str, is_there: bool) -> None:
    assert (re.search(pattern, "\n".join(HISTORY)) is not None) is is_there


def test_the_nearest_lines_are_some_for_each_that_a_pattern_asks_for() -> None:
    others = [f"1.000000 {number} api-server: 200 GET /api/v1/pods of replica-1" for number in range(20)]
    pattern = in_turn(r"(?P<who>replica-\d): freezes", "(?P=who): WARNING a pod that was to be bound is not")
    nearest = nearest_lines(pattern, [*others, *HISTORY])
    assert HISTORY[1] in nearest
    assert HISTORY[2] in nearest
    assert len(nearest) < len([*others, *HISTORY])

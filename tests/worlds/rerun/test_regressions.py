"""Worlds that once failed do not fail any more, and some still get into the situation in which they did."""

import re
import shlex
import subprocess
import sys

import pytest

from tests.worlds.rerun.regressions import (
    MOST_WORLDS,
    REGRESSIONS,
    Regression,
    first_that_shows,
    in_turn,
    nearest_lines,
)
from tests.worlds.scenarios import Scenario

# Of real time, for each regression. Most take one world of a few seconds.
MOST_SECONDS = 1200.0


def in_a_process(line: str) -> subprocess.CompletedProcess[str]:
    """Run the command of a world in a process of its own, whose hash seed the histories depend on."""
    return subprocess.run([sys.executable, *shlex.split(line)[1:]], capture_output=True, text=True)


@pytest.mark.timeout(MOST_SECONDS, func_only=True)
@pytest.mark.parametrize("regression", REGRESSIONS, ids=lambda each: f"seed {each.scenario.seed}")
def test_what_worlds_have_found_stays_mended(regression: Regression) -> None:
    print(first_that_shows(regression, in_a_process))  # `pytest -rP` shows it


def ended(line: str, status: int, history: str) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess(line, status, history, "what went wrong")


FROZEN = Regression(Scenario(seed=7), "a leader bound after a freeze", shows=r"replica-\d: freezes")


def test_the_next_seeds_are_tried_until_a_world_shows_the_situation() -> None:
    histories = {"7": "1.0 1 replica-0: thaws", "8": "1.0 1 replica-0: freezes"}
    line = first_that_shows(FROZEN, lambda line: ended(line, 0, histories[shlex.split(line)[4]]))
    assert line.startswith("python -m tests.worlds --seed 8 ")


def test_a_regression_fails_with_the_first_world_that_does() -> None:
    def run(line: str) -> subprocess.CompletedProcess[str]:
        return ended(line, int("--seed 9 " in line), "1.0 1 replica-0: thaws")

    with pytest.raises(AssertionError, match=r"(?s)a leader bound.*--seed 9 .*what went wrong"):
        first_that_shows(FROZEN, run)


def test_a_regression_fails_where_no_seed_shows_the_situation() -> None:
    last = 7 + MOST_WORLDS - 1
    with pytest.raises(AssertionError, match=rf"(?s)a leader bound.*freezes\n.*--seed {last} .*replica-0: thaws"):
        first_that_shows(FROZEN, lambda line: ended(line, 0, "1.0 1 replica-0: thaws"))


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

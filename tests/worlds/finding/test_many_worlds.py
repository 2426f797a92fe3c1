"""Many worlds: their figures, what failed and how to run it again, and when to end."""

import io

import pytest

from tests.worlds.finding.forked import Limits
from tests.worlds.finding.many_worlds import Plan, Progress, report, run_worlds
from tests.worlds.finding.wrong_by_choice import let_all_pods_be_due
from tests.worlds.scenarios import Scenario

LIMITS = Limits(jobs=2, seconds=100.0)
FINE = Scenario(seed=5, minutes=0.5, pods=3)
LONG = Scenario(seed=5, minutes=600.0)
# The pods do not fit.
FAILING = Scenario(seed=5, minutes=0.5, nodes=0, pods=3)


def test_counts_what_was_simulated() -> None:
    totals = run_worlds(Plan(FINE, worlds=3), LIMITS, Progress(3, io.StringIO()))
    assert sorted(totals.ends) == [5, 6, 7]
    assert totals.simulated_seconds == 90.0
    assert totals.failed == []
    assert totals.shown().startswith("3 worlds, 0.0 hours of clusters in ")
    assert totals.shown().endswith("; 0 failed")


def test_says_how_to_run_again_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    let_all_pods_be_due(monkeypatch)
    stream = io.StringIO()
    totals = run_worlds(Plan(FAILING, worlds=3, failures=1), Limits(jobs=1, seconds=100.0), Progress(3, stream))
    assert stream.getvalue().startswith("seed 5: ")
    lines = list(report(totals))
    assert lines[0].startswith("1 worlds, ")
    assert lines[3] == "  python -m tests.worlds --seed 5 --minutes 0.5 --nodes 0 --pods 3 --minor 31"
    assert "pod-0" in lines[4]


def test_a_world_that_hangs_has_failed() -> None:
    totals = run_worlds(Plan(LONG, worlds=1), Limits(jobs=1, seconds=0.0), Progress(1, io.StringIO()))
    assert totals.count == 1
    assert list(report(totals))[-1] == "  it did not end in time, and was killed"


def test_begins_no_more_once_the_time_is_over() -> None:
    assert run_worlds(Plan(FINE, seconds=0.0), LIMITS, Progress(None, io.StringIO())).count == 0
    assert run_worlds(Plan(FINE, seconds=1.0), LIMITS, Progress(None, io.StringIO())).count > 0

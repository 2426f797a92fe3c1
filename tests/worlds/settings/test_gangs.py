"""Pods of an app are bound together or refused together, and all are bound in the end."""

import pytest

from tests.worlds.finding.world_run import run_world
from tests.worlds.scenarios import Mode, Scenario


@pytest.mark.parametrize(("mode", "minor"), [(None, 31), (None, 37), ("replace", 37)])
def test_pods_of_an_app_are_bound_or_refused_at_once(mode: Mode | None, minor: int) -> None:
    end, cluster = run_world(Scenario(1, minutes=2.0, wanted=frozenset({"gangs"}), mode=mode, minor=minor))
    assert end.violations == []
    assert end.bound == end.pods == 60
    lines = cluster.world.trace.lines
    asked = [line.split()[0] for line in lines if "/binding" in line and " 201 POST" in line]
    refused = [line.split()[0] for line in lines if "too few of its app" in line and "cannot schedule" in line]
    assert most_within_a_moment(asked) >= 3
    assert most_within_a_moment(refused) >= 2


def most_within_a_moment(times: list[str]) -> int:
    """The most of some times that are within 50 ms."""
    seconds = [float(each) for each in times]
    return max((sum(0.0 <= other - each < 0.05 for other in seconds) for each in seconds), default=0)

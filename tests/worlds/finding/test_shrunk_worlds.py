"""A real world that fails shrinks to what a person reads."""

from functools import partial

import pytest

from tests.worlds.finding.forked import Limits
from tests.worlds.finding.shrinking import Shrinking
from tests.worlds.finding.shrunk_worlds import run_all, told
from tests.worlds.finding.wrong_by_choice import let_all_pods_be_due
from tests.worlds.scenarios import Scenario

LIMITS = Limits(jobs=2, seconds=100.0)


def test_a_pod_that_has_no_node_is_left_with_its_creation(monkeypatch: pytest.MonkeyPatch) -> None:
    let_all_pods_be_due(monkeypatch)
    scenario = Scenario(seed=3, minutes=0.5, replicas=2, nodes=0, pods=8, has_faults=True)
    shrunk = Shrinking(partial(run_all, limits=LIMITS), seconds=200.0, at_once=2).shrink(scenario)
    [pod] = shrunk.parts()
    lines = list(told(shrunk))
    assert lines[0].endswith(f" s of a world are left, with {pod}:")
    start = "python -m tests.worlds --seed 3 --minutes 0.5 --replicas 2 --nodes 0 --pods 8 --minor 31 --until "
    assert lines[1].startswith(start)
    assert any(line.split(" ", 1)[-1].startswith(f"cluster: created pod default/{pod}") for line in lines)
    assert lines[-1].startswith("VIOLATED ")
    assert pod in lines[-1]


def test_a_world_that_hangs_is_told_of() -> None:
    [end] = run_all([Scenario(seed=3, minutes=600.0)], Limits(jobs=1, seconds=0.0))
    assert end.violations == ["it did not end in time, and was killed"]

"""Where limits are small, programs reach them, and all holds."""

from tests.worlds.finding.world_run import run_world
from tests.worlds.scenarios import Scenario

WANTED = frozenset(("bursts", "hopeless", "looks", "replica-sets", "small-limits", "verbose"))


def test_a_few_pods_and_reasons_reach_them() -> None:
    scenario = Scenario(1, minutes=3.0, nodes=4, pods=40, has_others=True, wanted=WANTED, minor=37)
    end, cluster = run_world(scenario)
    assert end.violations == []
    history = "\n".join(cluster.world.trace.lines)
    assert "more pods" in history  # of a dump
    assert "node(s) had other reasons" in history


def test_without_it_they_do_not() -> None:
    wanted = WANTED - {"small-limits"}
    scenario = Scenario(1, minutes=3.0, nodes=4, pods=40, has_others=True, wanted=wanted, minor=37)
    _, cluster = run_world(scenario)
    history = "\n".join(cluster.world.trace.lines)
    assert "more pods" not in history
    assert "node(s) had other reasons" not in history

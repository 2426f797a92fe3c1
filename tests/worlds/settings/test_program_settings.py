"""Worlds whose programs are set up in other ways, and whose plugins fail, hold all the same."""

from random import Random

import pytest

from tests.worlds.clusters.draft import EXTRAS
from tests.worlds.covered.state_changes import counted
from tests.worlds.finding.world_run import run_world
from tests.worlds.scenarios import Mode, Scenario
from tests.worlds.settings.program_settings import SETTINGS, draw_wanted

ALL = frozenset((*SETTINGS, *EXTRAS))


def test_each_is_in_some_worlds_and_not_in_others() -> None:
    drawn = [draw_wanted(Random(seed)) for seed in range(50)]
    assert frozenset[str]().union(*drawn) == ALL
    assert frozenset[str]().intersection(*drawn) == frozenset()


@pytest.mark.parametrize(("mode", "minor"), [(None, 31), (None, 34), (None, 37), ("beside", 37), ("replace", 31)])
def test_all_together_let_pods_wait_and_go_in_every_way(mode: Mode | None, minor: int) -> None:
    wanted = {"assumed: dropped", "new: gated", "gated: active", "unschedulable: gone", "a bad mood", "gets signal 12"}
    for seed in range(3, 8):  # mostly, one is enough: here, a history also depends on the order of sets
        scenario = Scenario(seed, minutes=3.0, nodes=3, pods=30, has_others=True, wanted=ALL, minor=minor, mode=mode)
        with counted() as changes:
            end, cluster = run_world(scenario)
        assert end.violations == []
        history = "\n".join(cluster.world.trace.lines)
        wanted -= {each for each in wanted if changes[each] or each in history}
        if not wanted:
            return
    pytest.fail(f"not seen in any of these worlds: {wanted}")

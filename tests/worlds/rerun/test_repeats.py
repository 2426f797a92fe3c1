"""One seed has one history, wherever its objects lie in memory."""

import pytest

from tests.worlds.rerun.repeats import histories

SEEDS = range(1, 3)
# Of real time. It takes seconds of the processor, but on a busy machine that may be minutes.
MOST_SECONDS = 600.0


@pytest.mark.timeout(2.5 * MOST_SECONDS, func_only=True)
@pytest.mark.parametrize(
    "more", [(), ("--mode", "beside"), ("--mode", "replace"), ("--others",), ("--others", "--swarm")]
)
def test_a_seed_has_the_same_history_in_another_layout_of_memory(more: tuple[str, ...]) -> None:
    usual = ("--minutes", "2", "--replicas", "2", "--faults", "--pods", "20")
    first, second = histories(SEEDS, (*usual, *more), seconds=MOST_SECONDS)
    assert first.keys() == set(SEEDS)
    assert len(set(first.values())) == len(SEEDS)  # another seed has another history
    assert first == second

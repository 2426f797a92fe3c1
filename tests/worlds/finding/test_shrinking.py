"""Shrinking keeps what it takes for the same to go wrong, and drops all else."""

from collections.abc import Callable, Sequence

import pytest

from tests.worlds.finding.shrinking import Shrinking, kind_of
from tests.worlds.finding.world_run import WorldEnd
from tests.worlds.scenarios import Scenario

SCENARIO = Scenario(seed=1, minutes=10.0)
PARTS = {
    **{f"pod-{number}": 3.00049 * number for number in range(60)},
    **{f"node-{number}": 0.0 for number in range(5)},
    **{f"fault-{number}": 20.0 * number for number in range(15)},
    "replica-0": 0.0,
    "replica-1": 0.0,
}


def worlds(violations: Callable[[set[str], float], list[str]]) -> Callable[[Sequence[Scenario]], list[WorldEnd]]:
    """Worlds in which goes wrong what is said, of their parts and their end."""

    def run(scenario: Scenario) -> WorldEnd:
        parts = {name for name in PARTS if name not in scenario.without}
        until = 60.0 * scenario.minutes if scenario.until is None else scenario.until
        return WorldEnd(violations(parts, until), PARTS, until, real_seconds=1.0, steps=0, bound=0, pods=0, digest="")

    return lambda scenarios: [run(each) for each in scenarios]


@pytest.mark.parametrize("at_once", [1, 2, 7])
def test_keeps_the_parts_that_it_takes_together(at_once: int) -> None:
    needed = {"pod-7", "pod-41", "fault-3", "node-2", "replica-1"}

    def violations(parts: set[str], until: float) -> list[str]:
        other = [] if "pod-3" in parts else ["100.000000 no node over its capacity: node-1 has 3 pods too many"]
        return ["300.000000 bound once: pod default/pod-7 was bound twice"] if needed <= parts else other

    shrunk = Shrinking(worlds(violations), seconds=60.0, at_once=at_once).shrink(SCENARIO)
    assert set(shrunk.parts()) == needed
    assert shrunk.runs < 200


def test_ends_soon_after_what_went_wrong() -> None:
    def violations(parts: set[str], until: float) -> list[str]:
        return ["123.500000 bound once: pod default/pod-7 was bound twice"] if until > 123.5 else []

    assert Shrinking(worlds(violations), seconds=60.0).shrink(SCENARIO).scenario.until == 124.5


def test_leaves_time_to_settle_if_only_the_end_shows_it() -> None:
    def violations(parts: set[str], until: float) -> list[str]:
        on_no_node = sorted(parts - {"pod-7"}) if until < 30.0 else ["pod-7"] if "pod-7" in parts else []
        return [f"{until:.6f} fitting pods bound: pod default/{name} is on no node" for name in on_no_node]

    shrunk = Shrinking(worlds(violations), seconds=60.0).shrink(SCENARIO)
    assert shrunk.parts() == ["pod-7"]
    assert shrunk.runs < 100
    assert shrunk.scenario.until == round(7 * 3.00049, 3) + SCENARIO.quiet_seconds


def test_keeps_the_kind_of_what_went_wrong() -> None:
    def violations(parts: set[str], until: float) -> list[str]:
        if "pod-5" in parts and "pod-6" in parts:
            return ["5.0 nothing unexpected logged: replica-0: ERROR an attempt failed KeyError('pod-5')"]
        return ["5.0 nothing unexpected logged: replica-0: ERROR the watch ended"]

    assert Shrinking(worlds(violations), seconds=60.0).shrink(SCENARIO).parts() == ["pod-5", "pod-6"]


def test_nothing_to_shrink() -> None:
    with pytest.raises(ValueError, match="nothing goes wrong in this world"):
        Shrinking(worlds(lambda parts, until: []), seconds=60.0).shrink(SCENARIO)


def test_ends_when_its_time_is_over() -> None:
    shrunk = Shrinking(worlds(lambda parts, until: ["pods lost"]), seconds=0.0).shrink(SCENARIO)
    assert shrunk.scenario == SCENARIO
    assert shrunk.runs == 1


def test_kinds_leave_out_when_and_where() -> None:
    first = kind_of("12.345678 bound once: pod default/pod-3 was on node-1, and is on node-2 now")
    second = kind_of("99.000001 bound once: pod default/pod-8 was on node-4, and is on node-0 now")
    assert first == second == "bound once: pod was on and is on"
    assert kind_of("Traceback\n  line\nAssertionError: 5 is not 4") == "AssertionError: is not"

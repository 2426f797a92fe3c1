"""kube-scheduler's own plugins would have done what the programs of a world did, and a difference is found."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec
import pytest

from tests.conformance import oracle
from tests.conformance.cases import Verdict
from tests.worlds.judging.cases import WitnessedCase, differences, is_left_to_chance, oracle_input
from tests.worlds.judging.judged_worlds import Tally, WitnessedWorld, judged, plain_world, rich_world, witnessed
from tests.worlds.judging.witness import Outcome
from tests.worlds.scenarios import Scenario


@cache
def world() -> WitnessedWorld:
    return witnessed(plain_world(seed=2, minutes=3.0))


def decided_preemption() -> WitnessedCase:
    """A preemption of that world of which nothing is left to chance."""
    return next(case for case in world().cases if case.outcome == "preempts" and not is_left_to_chance(case))


def first(outcome: Outcome, verdicts: Sequence[Verdict]) -> tuple[WitnessedCase, Verdict]:
    """The first decision of that world that came out so, and the reference's."""
    return next(pair for pair in zip(world().cases, verdicts, strict=True) if pair[0].outcome == outcome)


def judge_one(case: WitnessedCase, verdict: Verdict) -> list[str]:
    return list(differences(case, verdict))


@pytest.fixture(scope="session")
def verdicts(reference: Path) -> Sequence[Verdict]:
    return [msgspec.json.decode(line) for line in oracle.ask(oracle_input(world().cases)).splitlines()]


def test_the_reference_agrees_with_each_decision_of_a_world(reference: Path) -> None:
    found = world()
    assert found.violations == []
    assert sum(case.outcome != "placed" for case in found.cases) > 20
    assert sum(case.outcome == "placed" for case in found.cases) > 5
    assert sum(case.outcome == "preempts" and not is_left_to_chance(case) for case in found.cases) > 2
    assert found.skipped < len(found.cases) / 5
    assert list(judged(found.cases)) == []


def assert_agreed(scenario: Scenario, minor: int) -> None:
    """The reference of the release agrees with all kinds of decisions of a world, of which most are written down."""
    assert scenario.minor == minor
    found, tally = witnessed(scenario), Tally()
    tally.add(found)
    assert found.violations == []
    assert {case.outcome for case in found.cases} == {"placed", "preempts", "pending"}
    assert not tally.skipped_too_many
    assert list(judged(found.cases)) == []


def test_the_reference_agrees_with_each_decision_of_a_rich_world(newest_reference: Path) -> None:
    assert_agreed(rich_world(seed=6, minutes=3.0), minor=37)


def test_the_reference_agrees_with_each_decision_of_serve_that_preempts(reference: Path) -> None:
    assert_agreed(rich_world(seed=7, minutes=3.0, mode="preempting"), minor=31)


def test_rich_worlds_are_of_all_releases() -> None:
    assert {rich_world(seed, 3.0).minor for seed in range(7)} == {31, 32, 33, 34, 35, 36, 37}


def test_another_victim_is_reported(verdicts: Sequence[Verdict]) -> None:
    case = decided_preemption()
    verdict = verdicts[world().cases.index(case)]
    wrong = msgspec.structs.replace(case, victims=["default/other"])
    (text,) = judge_one(wrong, verdict)
    assert text == f"['default/other'] were to go from {case.node}, the reference deletes {case.victims}"
    elsewhere = msgspec.structs.replace(case, node="node-9")
    assert judge_one(elsewhere, verdict) == [
        f"it was nominated for node-9, the reference nominates it for {verdict['preempt']['tied']}"
    ]


def test_a_preemption_that_the_reference_would_not_begin_is_reported(verdicts: Sequence[Verdict]) -> None:
    case, verdict = first("pending", verdicts)
    wrong = msgspec.structs.replace(case, outcome="preempts", node="node-0", victims=["default/other"], reason=None)
    assert judge_one(wrong, verdict) == ["it was nominated for node-0, the reference nominates it for none"]


def test_another_reason_is_reported(verdicts: Sequence[Verdict]) -> None:
    case, verdict = first("pending", verdicts)
    wrong = msgspec.structs.replace(case, reason="0/2 nodes are available: 2 Insufficient cpu.")
    (text,) = judge_one(wrong, verdict)
    assert text.startswith("the reason was '0/2 nodes are available: 2 Insufficient cpu.', the reference's is ")


def test_a_pod_that_fits_by_the_reference_is_reported(verdicts: Sequence[Verdict]) -> None:
    case, verdict = first("pending", verdicts)
    assert judge_one(case, {**verdict, "feasible": ["node-0"]}) == ["it fits on ['node-0']"]


def test_a_node_on_which_the_pod_does_not_fit_by_the_reference_is_reported(verdicts: Sequence[Verdict]) -> None:
    case, verdict = first("placed", verdicts)
    assert judge_one(msgspec.structs.replace(case, node="node-9"), verdict) == [
        f"it was placed on node-9, it fits on {verdict['feasible']} by the reference"
    ]


def test_what_the_reference_leaves_to_chance_is_known() -> None:
    case = decided_preemption()
    started = {
        key: {**each, "status": {**each["status"], "startTime": "2026-01-01T00:00:00Z"}}
        for key, each in case.definitions.items()
    }
    assert is_left_to_chance(msgspec.structs.replace(case, definitions=started))


def made_up(outcome: Outcome, priorities: Sequence[int] = ()) -> WitnessedCase:
    """A case in which pods of some priorities run on a node."""
    definitions = {
        str(number): {"kind": "Pod", "spec": {"nodeName": "node-0", "priority": priority}, "status": {}}
        for number, priority in enumerate(priorities)
    }
    pod = {"spec": {"priority": 10}, "status": {}}
    return WitnessedCase("case", pod, [*definitions], definitions, 31, outcome, 1, "", [], None)


def tally_of(*cases: WitnessedCase, skipped: int = 0) -> Tally:
    tally = Tally()
    tally.add(WitnessedWorld(cases, skipped, []))
    return tally


def test_preemptions_and_pending_pods_are_counted_apart() -> None:
    pending, preempts, chance = made_up("pending"), made_up("preempts", (1, 2)), made_up("preempts", (1, 1))
    assert tally_of(pending, pending, preempts, preempts, chance).has(2)
    assert not tally_of(pending, pending, preempts, chance).has(2)
    assert not tally_of(pending, preempts, preempts, preempts).has(2)


def test_too_many_are_skipped_where_it_is_more_than_a_fifth() -> None:
    cases = [made_up("placed")] * 4
    assert not tally_of(*cases, skipped=1).skipped_too_many
    assert tally_of(*cases, skipped=2).skipped_too_many

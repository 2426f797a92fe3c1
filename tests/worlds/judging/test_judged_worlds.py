"""kube-scheduler's own plugins would have done what the schedulers of a world did, and a difference is found."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec
import pytest

from tests.conformance import oracle
from tests.conformance.cases import Verdict
from tests.worlds.judging.cases import WitnessedCase, differences, is_left_to_chance, oracle_input
from tests.worlds.judging.judged_worlds import WitnessedWorld, judged, witnessed


@cache
def world() -> WitnessedWorld:
    return witnessed(seed=2, minutes=3.0)


def decided_preemption() -> WitnessedCase:
    """A preemption of that world of which nothing is left to chance."""
    return next(case for case in world().cases if case.node and not is_left_to_chance(case))


def judge_one(case: WitnessedCase, verdict: Verdict) -> list[str]:
    return list(differences(case, verdict))


@pytest.fixture(scope="session")
def verdicts(reference: Path) -> Sequence[Verdict]:
    return [msgspec.json.decode(line) for line in oracle.ask(oracle_input(world().cases)).splitlines()]


def test_the_reference_agrees_with_each_decision_of_a_world(reference: Path) -> None:
    found = world()
    assert found.violations == []
    assert len(found.cases) > 20
    assert sum(bool(case.node) and not is_left_to_chance(case) for case in found.cases) > 2
    assert found.skipped < len(found.cases) / 5
    assert list(judged(found.cases)) == []


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
    case, verdict = next(pair for pair in zip(world().cases, verdicts, strict=True) if not pair[0].node)
    wrong = msgspec.structs.replace(case, node="node-0", victims=["default/other"])
    assert judge_one(wrong, verdict) == ["it was nominated for node-0, the reference nominates it for none"]


def test_another_reason_is_reported(verdicts: Sequence[Verdict]) -> None:
    case, verdict = next(pair for pair in zip(world().cases, verdicts, strict=True) if not pair[0].node)
    wrong = msgspec.structs.replace(case, reason="0/2 nodes are available: 2 Insufficient cpu.")
    (text,) = judge_one(wrong, verdict)
    assert text.startswith("the reason was '0/2 nodes are available: 2 Insufficient cpu.', the reference's is ")


def test_a_pod_that_fits_by_the_reference_is_reported(verdicts: Sequence[Verdict]) -> None:
    case, verdict = world().cases[0], verdicts[0]
    assert judge_one(case, {**verdict, "feasible": ["node-0"]}) == ["it fits on ['node-0']"]


def test_what_the_reference_leaves_to_chance_is_known() -> None:
    case = decided_preemption()
    started = {
        key: {**each, "status": {**each["status"], "startTime": "2026-01-01T00:00:00Z"}}
        for key, each in case.definitions.items()
    }
    assert is_left_to_chance(msgspec.structs.replace(case, definitions=started))

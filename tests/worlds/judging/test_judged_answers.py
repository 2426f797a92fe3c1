"""kube-scheduler's own plugins take the victims that `serve` names, and other victims are found."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec
import pytest

from tests.conformance.cases import Verdict
from tests.worlds.judging.answer_cases import AnsweredCase, wrong_answers
from tests.worlds.judging.judged_answers import AnsweredWorld, answered, judged_answers, verdicts_on
from tests.worlds.scenarios import Mode


@cache
def world(mode: Mode) -> AnsweredWorld:
    return answered(seed=_SEEDS[mode], minutes=3.0, mode=mode)


_SEEDS = {"beside": 2, "replace": 2}


@pytest.fixture(scope="session")
def verdicts(reference: Path) -> Sequence[Verdict]:
    return verdicts_on(world("replace").cases)


@pytest.mark.parametrize(("mode", "kept"), [("beside", "as proposed"), ("replace", "as needed")])
def test_the_reference_agrees_with_each_answer_of_a_world(mode: Mode, kept: str, reference: Path) -> None:
    found = world(mode)
    assert found.violations == []
    assert sum(case.kept == kept for case in found.cases) > 5
    assert [*judged_answers(found.cases, verdicts_on(found.cases))] == []


def judge_first(verdicts: Sequence[Verdict], **other: object) -> list[str]:
    """What is said of an answer with the victims that are needed, if it had been another one."""
    pairs = zip(world("replace").cases, verdicts, strict=True)
    case, verdict = next(pair for pair in pairs if pair[0].kept == "as needed" and not pair[1]["feasible"])
    assert [*wrong_answers(case, verdict)] == []
    return [*wrong_answers(msgspec.structs.replace(case, **other), verdict)]


def test_other_victims_are_reported(verdicts: Sequence[Verdict]) -> None:
    (text,) = judge_first(verdicts, victims=["default/other"])
    assert text.startswith("['default/other'] were to go from node-")


def test_a_node_that_was_left_out_although_victims_help_is_reported(verdicts: Sequence[Verdict]) -> None:
    (text,) = judge_first(verdicts, kept="not", victims=[])
    assert "was kept 'not', the reference's victims there are ['default/" in text


def test_a_node_where_no_victims_help_is_reported(verdicts: Sequence[Verdict]) -> None:
    assert judge_first(verdicts, node="node-9") == [
        "node-9 was kept 'as needed', the reference's victims there are none"
    ]


def test_a_node_where_the_proposed_victims_are_too_few_is_reported(verdicts: Sequence[Verdict]) -> None:
    (text,) = judge_first(verdicts, kept="as proposed")
    assert text.endswith("by the reference, without more victims than those proposed")


def test_a_node_where_fewer_victims_are_enough_is_reported() -> None:
    case = AnsweredCase("case", {"status": {}}, [], {}, "node-1", "as needed", ["default/a"])
    assert [*wrong_answers(case, {"feasible": ["node-1"]})] == [
        "the pod fits on node-1 by the reference, without more victims than those proposed"
    ]

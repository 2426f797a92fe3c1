"""Whether this project agrees with the reference, case by case."""

from collections.abc import Sequence

import msgspec

from extender_service.config.problems import ConfigError
from extender_service.config.release import OLDEST_MINOR
from extender_service.config.rules import Rules, rules_of
from tests.conformance import chance
from tests.conformance.cases import Case, Verdict, read_cases
from tests.conformance.comparison import differences
from tests.conformance.evaluation import evaluate

OLDEST_RULES = rules_of(OLDEST_MINOR)
_UNREADABLE = "unreadable"


class Judgement(msgspec.Struct):
    """What differs on one case; nothing, if all agrees. `chances` are the reasons if chance explains all of it."""

    name: str
    family: str
    differences: list[str]
    chances: list[str] = []

    @property
    def agrees(self) -> bool:
        """Whether nothing differs except what the reference leaves to chance."""
        return not self.differences or bool(self.chances)


def judge(
    cases: Sequence[Case], references: Sequence[Verdict], only: Sequence[str], rules: Rules = OLDEST_RULES
) -> list[Judgement]:
    """Evaluate the cases and compare. Raises ValueError where cases and verdicts do not belong together."""
    if [case.name for case in cases] != [reference.get("name") for reference in references]:
        raise ValueError("the verdicts are not those of these cases, in the same order")
    return [_judge(case, reference, only, rules) for case, reference in zip(cases, references, strict=True)]


def judge_lines(
    lines: Sequence[bytes], references: Sequence[Verdict], only: Sequence[str], rules: Rules = OLDEST_RULES
) -> list[Judgement]:
    """Judge cases as they are written; a line that is none counts as a case that differs. Raises ValueError, too."""
    if len(lines) != len(references):
        raise ValueError(f"there are {len(lines)} cases and {len(references)} verdicts")
    return [
        found
        for line, reference in zip(lines, references, strict=True)
        for found in _judge_line(line, reference, only, rules)
    ]


def _judge_line(line: bytes, reference: Verdict, only: Sequence[str], rules: Rules) -> list[Judgement]:
    try:
        cases = read_cases(iter([line]))
    except msgspec.DecodeError as error:
        return [Judgement(str(reference.get("name")), _UNREADABLE, [f"this is no case: {error}"])]
    return judge(cases, [reference], only, rules)


def _judge(case: Case, reference: Verdict, only: Sequence[str], rules: Rules) -> Judgement:
    found = _compare(case, reference, only, rules)
    return Judgement(case.name, case.family, found, chance.reasons(case, found, rules))


def _compare(case: Case, reference: Verdict, only: Sequence[str], rules: Rules) -> list[str]:
    refusal = reference.get("error")
    if refusal is not None:
        return [] if _is_refused(case, rules) else [f"the reference could not evaluate it: {refusal}"]
    # Normalised scores depend on which nodes all plugins together left: take the reference's.
    try:
        ours = evaluate(case, rules, reference["feasible"] if only else None)
    except Exception as error:  # whatever fails, the other cases are still judged
        return [f"this project could not evaluate it: {type(error).__name__}: {error}"]
    return list(differences(ours, reference, only))


def _is_refused(case: Case, rules: Rules) -> bool:
    """Return whether this project refuses the configuration of the case, too."""
    try:
        evaluate(case, rules)
    except ConfigError:
        return True
    except Exception:  # what fails in another way is a difference
        return False
    return False


def first_differences(judgements: Sequence[Judgement]) -> list[str]:
    """Return how the first cases that do not agree differ, for a test to show."""
    return [
        f"{judgement.name}: {difference}"
        for judgement in judgements
        if not judgement.agrees
        for difference in judgement.differences[:3]
    ][:20]

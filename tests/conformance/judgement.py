"""Whether this project agrees with the reference, case by case."""

from collections.abc import Sequence

import msgspec

from tests.conformance.cases import Case, Verdict
from tests.conformance.comparison import differences
from tests.conformance.evaluation import evaluate


class Judgement(msgspec.Struct):
    """What differs on one case; nothing, if all agrees."""

    name: str
    family: str
    differences: list[str]

    @property
    def agrees(self) -> bool:
        """Whether nothing differs."""
        return not self.differences


def judge(cases: Sequence[Case], references: Sequence[Verdict], only: Sequence[str]) -> list[Judgement]:
    """Evaluate the cases and compare. Raises ValueError where cases and verdicts do not belong together."""
    if [case.name for case in cases] != [reference.get("name") for reference in references]:
        raise ValueError("the verdicts are not those of these cases, in the same order")
    return [
        Judgement(case.name, case.family, _compare(case, reference, only))
        for case, reference in zip(cases, references, strict=True)
    ]


def _compare(case: Case, reference: Verdict, only: Sequence[str]) -> list[str]:
    if "error" in reference:
        return [f"the reference could not evaluate it: {reference['error']}"]
    # Normalised scores depend on which nodes all plugins together left: take the reference's.
    ours = evaluate(case, reference["feasible"] if only else None)
    return list(differences(ours, reference, only))

"""Agreement with kube-scheduler's own plugins on the cases that are written by hand."""

import pytest

from tests.conformance import oracle
from tests.conformance.cases import Case, Verdict, read_cases, read_lines, read_verdicts
from tests.conformance.judgement import judge
from tests.conformance.pinned.cases import VERDICTS, pinned_lines

CASES = read_cases(pinned_lines())


@pytest.mark.parametrize(
    ("case", "verdict"),
    [
        pytest.param(case, verdict, id=case.name)
        for case, verdict in zip(CASES, read_verdicts(read_lines(VERDICTS)), strict=True)
    ],
)
def test_pinned_verdicts(case: Case, verdict: Verdict) -> None:
    assert judge([case], [verdict], ())[0].differences == []


@pytest.mark.usefixtures("reference")
def test_pinned_verdicts_are_what_the_reference_says() -> None:
    now = read_verdicts(iter(oracle.ask(b"".join(pinned_lines())).splitlines()))
    assert now == read_verdicts(read_lines(VERDICTS)), "run python -m tests.conformance.pinned"

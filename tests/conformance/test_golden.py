"""Agreement with kube-scheduler's own plugins, in code, reason, plugin and score."""

import random

import pytest

from tests.conformance import golden, oracle
from tests.conformance.cases import read_cases, read_lines, read_verdicts
from tests.conformance.judgement import first_differences, judge

FAMILIES = golden.families()
RANDOM_CASES_PER_FAMILY = 50


@pytest.mark.parametrize("family", FAMILIES)
def test_golden_verdicts(family: str) -> None:
    cases = read_cases(read_lines(golden.cases_path(family)))
    verdicts = read_verdicts(read_lines(golden.verdicts_path(family)))
    assert len(cases) == golden.CASES_PER_FAMILY
    assert first_differences(judge(cases, verdicts, ())) == []


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize("family", FAMILIES)
def test_golden_verdicts_are_what_the_reference_says(family: str) -> None:
    cases = b"".join(read_lines(golden.cases_path(family)))
    now = read_verdicts(iter(oracle.ask(cases).splitlines()))
    assert now == read_verdicts(read_lines(golden.verdicts_path(family))), "run python -m tests.conformance.golden"


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize("family", FAMILIES)
def test_random_cases(family: str, capsys: pytest.CaptureFixture[str]) -> None:
    seed = random.SystemRandom().randrange(10**9)
    generated = oracle.generate(seed, RANDOM_CASES_PER_FAMILY, [family])
    with capsys.disabled():
        print(f" seed {seed}", end="")
    verdicts = read_verdicts(iter(oracle.ask(generated).splitlines()))
    command = f"python tests/oracle/generate.py --seed {seed} --count {RANDOM_CASES_PER_FAMILY} --family {family}"
    assert first_differences(judge(read_cases(iter(generated.splitlines())), verdicts, ())) == [], command

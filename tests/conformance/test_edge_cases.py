"""Agreement with the reference on new cases of the second generator, and on cases derived from both generators'."""

import random
from collections.abc import Iterable

import msgspec
import pytest

from tests.conformance import oracle
from tests.conformance.cases import read_verdicts
from tests.conformance.edge_cases.case_builder import Item
from tests.conformance.edge_cases.families import FAMILIES
from tests.conformance.edge_cases.generation import derived_cases, fresh_cases
from tests.conformance.judgement import first_differences, judge_lines

CASES_PER_FAMILY = 50
LARGE_CASES = 5
DERIVED_CASES = 150


def differences_on(cases: Iterable[Item]) -> list[str]:
    lines = [msgspec.json.encode(case) for case in cases]
    verdicts = read_verdicts(iter(oracle.ask(b"\n".join(lines)).splitlines()))
    return first_differences(judge_lines(lines, verdicts, ()))


@pytest.fixture
def seed(capsys: pytest.CaptureFixture[str]) -> int:
    """A new seed, which the test shows."""
    seed = random.SystemRandom().randrange(10**9)
    with capsys.disabled():
        print(f" seed {seed}", end="")
    return seed


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize("family", FAMILIES)
def test_fresh_cases(family: str, seed: int) -> None:
    count = LARGE_CASES if family == "large" else CASES_PER_FAMILY
    command = f"python -m tests.conformance.edge_cases --seed {seed} --fresh {count} --family {family}"
    assert differences_on(fresh_cases(seed, count, [family])) == [], command


@pytest.mark.usefixtures("reference")
def test_derived_cases(seed: int) -> None:
    command = f"python -m tests.conformance.edge_cases --seed {seed} --derived {DERIVED_CASES}"
    assert differences_on(derived_cases(seed, DERIVED_CASES)) == [], command

"""docs/compatibility.md says which release turns on which rule, as config/rules.py does."""

import re
from pathlib import Path

from extender_service.config.release import NEWEST_MINOR, OLDEST_MINOR, version_of
from extender_service.config.rules import rules_of
from tests.conformance import compat
from tests.docs import rule_table

ROOT = Path(__file__).parents[2]
PAGE = rule_table.PAGE.read_text()


def test_the_table_has_the_rules() -> None:
    assert rule_table.written() == rule_table.table(), "run python -m tests.docs.rule_table"


def test_a_row_says_what_holds_in_each_release() -> None:
    [row] = [line for line in rule_table.written().splitlines() if line.startswith("| `too_large_is_unresolvable`")]
    cells = [cell.strip() for cell in row.split("|")[2:-3]]
    assert cells == ["", "", "on", "on", "on", "on"]
    minors = range(OLDEST_MINOR + 1, NEWEST_MINOR + 1)
    assert [rules_of(minor).too_large_is_unresolvable for minor in minors] == [cell == "on" for cell in cells]


def test_each_reason_why_no_example_shows_a_rule_is_explained() -> None:
    assert set(re.findall(r"^- \*\*(\w+)\*\*: ", PAGE, re.MULTILINE)) == set(compat.NO_EXAMPLE)


def test_all_releases_are_named_and_the_versions_are_those_that_tests_build() -> None:
    for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1):
        assert re.search(rf"^\| {re.escape(version_of(minor))} \|", PAGE, re.MULTILINE), version_of(minor)
    built = {
        version
        for file in [ROOT / "tests" / "go.mod", *(ROOT / "tests" / "kubernetes_1_37").rglob("*.mod")]
        for version in re.findall(r"k8s\.io/kubernetes (v1\.\d+\.\d+)\n", file.read_text())
    }
    assert set(re.findall(r"v1\.\d+\.\d+", PAGE)) == built


def test_the_pythons_are_those_of_the_package() -> None:
    pythons = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    assert f"Python {' and '.join(pythons)}" in PAGE

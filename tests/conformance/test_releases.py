"""What changed between releases of kube-scheduler: which release brings it, and that the newest says the same."""

import copy
from pathlib import Path
from typing import Any

import pytest

from extender_service.config.release import NEWEST_MINOR, OLDEST_MINOR
from extender_service.config.rules import rules_of
from tests.conformance import oracle
from tests.conformance.cases import Case, Verdict, read_cases, read_lines, read_verdicts
from tests.conformance.evaluation import evaluate
from tests.conformance.judgement import judge

NEWEST = oracle.Reference(NEWEST_MINOR)
EXAMPLES = list(read_lines(Path(oracle.ORACLES[NEWEST_MINOR]) / "examples.jsonl"))
CASES = {case.name: case for case in read_cases(iter(EXAMPLES))}
MINORS = range(OLDEST_MINOR, NEWEST_MINOR + 1)

NO_ROOM = "preemption: 0/1 nodes are available: 1"
NOT_HELPFUL = "Preemption is not helpful for scheduling."
NO_CLAIMS = "no new claims to deallocate"
POTENTIAL = "preemption: found a potential placement for pod on node a, preempting"

# Example, where in the verdict, what is there at first, and from which minors on it is something else.
CHANGES: list[tuple[str, str, Any, dict[int, Any]]] = [
    ("balanced", "score.NodeResourcesBalancedAllocation", {"a": 75, "b": 93}, {36: {"a": 72, "b": 71}}),
    ("besteffort", "score.NodeResourcesBalancedAllocation", {"a": 81, "b": 100}, {33: None}),
    (
        "taint",
        "filter.a.reasons",
        ["node(s) had untolerated taint {k: v}"],
        {34: ["node(s) had untolerated taint(s)"]},
    ),
    ("toosmall", "filter.a.code", "Unschedulable", {34: "UnschedulableAndUnresolvable"}),
    (
        "toosmall",
        "preempt.reasons",
        [f"{NO_ROOM} Insufficient cpu."],
        {34: [NO_CLAIMS, f"{NO_ROOM} {NOT_HELPFUL}"], 37: [f"{NO_ROOM} {NOT_HELPFUL}"]},
    ),
    ("toosmall", "preempt.plugin", "DefaultPreemption", {34: "DynamicResources"}),
    (
        "missingclaim",
        "preempt.reasons",
        [f"{NO_ROOM} {NOT_HELPFUL}"],
        {34: ["not found"]},
    ),
    ("sidecarport", "feasible", ["a"], {33: []}),
    ("sidecarnonzero", "score.NodeResourcesFit", {"a": 77}, {32: {"a": 71}}),
    ("localpv", "preFilter.nodeNames", ["short"], {32: None}),
    ("localpv", "feasible", [], {32: ["long.example.com"]}),
    ("gated", "feasible", ["a"], {37: []}),
    ("attachment", "feasible", ["a"], {32: []}),
    ("nodelimit", "feasible", [], {32: ["a"]}),
    ("nodename", "preFilter.nodeNames", None, {37: ["a"]}),
    ("preempts", "preempt.reasons", [], {37: [f"{POTENTIAL} 1 victims"]}),
    (
        "victims",
        "preempt.candidates",
        [{"node": "a", "victims": ["default/low", "default/high"], "pdbViolations": 1}],
        {32: [{"node": "a", "victims": ["default/high", "default/low"], "pdbViolations": 1}]},
    ),
    ("capacity", "score.VolumeBinding", None, {37: {"a": 50, "b": 90}}),
    ("capacity", "score.DynamicResources", None, {35: {"a": 0, "b": 0}}),
    ("largestclaim", "score.VolumeBinding", None, {37: {"a": 58, "b": 58}}),
]


def at(verdict: Verdict, path: str) -> Any:
    found: Any = verdict
    for part in path.split("."):
        found = found and found.get(part)
    return found


@pytest.mark.parametrize(("name", "path", "first", "later"), CHANGES)
def test_each_change_comes_with_its_release(name: str, path: str, first: Any, later: dict[int, Any]) -> None:
    expected = copy.copy(first)
    for minor in MINORS:
        expected = later.get(minor, expected)
        assert at(evaluate(CASES[name], rules_of(minor)), path) == expected, f"1.{minor}"


def test_plugins_are_skipped_once_they_are_there() -> None:
    skipped = [set(at(evaluate(CASES["taint"], rules_of(minor)), "preFilter.skipped")) for minor in MINORS]
    assert ["DynamicResources" in names for names in skipped] == [False] * 3 + [True] * 4
    assert ["NodeDeclaredFeatures" in names for names in skipped] == [False] * 5 + [True] * 2


@pytest.mark.usefixtures("newest_reference")
def test_the_newest_release_says_the_same_of_the_examples() -> None:
    verdicts = read_verdicts(iter(oracle.ask(b"".join(EXAMPLES), NEWEST).splitlines()))
    judgements = judge(list(CASES.values()), verdicts, (), NEWEST.rules)
    assert [judgement.name for judgement in judgements] == list(CASES)
    failed = {judgement.name: judgement.differences for judgement in judgements if not judgement.agrees}
    assert failed == {}


@pytest.mark.usefixtures("reference")
def test_the_oldest_release_says_the_same_of_those_that_it_knows() -> None:
    known: list[Case] = [CASES[name] for name, *_ in CHANGES]
    lines = [line for line in EXAMPLES if read_cases(iter([line]))[0].name in {case.name for case in known}]
    verdicts = read_verdicts(iter(oracle.ask(b"".join(lines)).splitlines()))
    judgements = judge(read_cases(iter(lines)), verdicts, ())
    assert {judgement.name: judgement.differences for judgement in judgements if judgement.differences} == {}

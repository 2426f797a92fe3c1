"""Compare releases of Kubernetes with their own plugins: python -m tests.conformance.compat [MINOR ...].

Examples show the rules of config/rules.py: their verdicts differ with a rule and without it. Each release's own
kube-scheduler judges all of them. So a rule that comes too early or too late makes a difference.
"""

import argparse
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from extender_service.config.release import NEWEST_MINOR, OLDEST_MINOR, version_of
from extender_service.config.rules import Rules, rules_of
from tests.conformance import oracle
from tests.conformance.cases import Case, read_cases, read_lines, read_verdicts
from tests.conformance.evaluation import evaluate
from tests.conformance.judgement import judge

MINORS = range(OLDEST_MINOR, NEWEST_MINOR + 1)
EXAMPLES = Path(oracle.ORACLES[NEWEST_MINOR]) / "examples.jsonl"
RULES = [each.name for each in dataclasses.fields(Rules) if each.name != "release"]
# What oracles say of examples with fields or kinds that came later.
_NOT_KNOWN = ("unknown field", "no kind ")


def first_minor(rule: str) -> int | None:
    """Return the first release that has a rule by default; None if none has."""
    return next((minor for minor in MINORS if getattr(rules_of(minor), rule)), None)


def shown_by(rule: str, cases: Sequence[Case]) -> list[str]:
    """Return the names of the examples whose verdict depends on the rule, in the release that brings it."""
    minor = first_minor(rule)
    if minor is None:
        return []
    rules = rules_of(minor)
    without = Rules(**{**dataclasses.asdict(rules), rule: False})
    return [case.name for case in cases if evaluate(case, rules) != evaluate(case, without)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print how each release judges the examples, and what shows each rule; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.compat", description=__doc__)
    parser.add_argument("minors", nargs="*", type=int, default=oracle.JUDGED, help="default: all that have one")
    minors = parser.parse_args(arguments).minors
    lines = list(read_lines(EXAMPLES))
    results = {minor: _compare(lines, minor) for minor in minors}
    for minor, differences in results.items():
        wrong = {name: found for name, found in differences.items() if found}
        print(f"{version_of(minor)}: {len(differences)} of {len(lines)} examples are known, {len(wrong)} differ")
        for name, found in wrong.items():
            print(f"  {name}: {'; '.join(found[:3])}")
    print()
    cases = read_cases(iter(lines))
    for rule in RULES:
        print(f"{rule}: {_evidence(rule, shown_by(rule, cases), results)}")
    return 1 if any(any(differences.values()) for differences in results.values()) else 0


def _compare(lines: Sequence[bytes], minor: int) -> dict[str, list[str]]:
    """The differences from that release's plugins, by example; examples that it cannot read are left out."""
    reference = oracle.Reference(minor)
    verdicts = read_verdicts(iter(oracle.ask(b"".join(lines), reference).splitlines()))
    known = [
        (case, verdict)
        for case, verdict in zip(read_cases(iter(lines)), verdicts, strict=True)
        if not any(text in verdict.get("error", "") for text in _NOT_KNOWN)
    ]
    cases, references = [case for case, _ in known], [verdict for _, verdict in known]
    judgements = judge(cases, references, (), reference.rules)
    return {each.name: [] if each.agrees else each.differences for each in judgements}


def _evidence(rule: str, examples: Sequence[str], results: Mapping[int, Mapping[str, Sequence[str]]]) -> str:
    """What proves the release that brings a rule: examples on which it and the release before agree with theirs."""
    minor = first_minor(rule)
    if minor is None:
        return "off by default"
    if not examples:
        return f"from {version_of(minor)} on; no example shows it"
    proving = [name for name in examples if all(results.get(each, {}).get(name) == [] for each in (minor - 1, minor))]
    return f"from {version_of(minor)} on, shown by {', '.join(proving[:3]) or 'none that both releases judged alike'}"


if __name__ == "__main__":
    sys.exit(main())

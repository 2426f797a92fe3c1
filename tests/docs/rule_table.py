"""Write the table of rules in docs/compatibility.md from config/rules.py: python -m tests.docs.rule_table."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from extender_service.config import rules
from extender_service.config.known_gates import known_gates
from extender_service.config.release import NEWEST_MINOR, OLDEST_MINOR, version_of
from extender_service.config.rules import followed_gates, rules_of
from tests.conformance import compat

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
_MINORS = range(OLDEST_MINOR + 1, NEWEST_MINOR + 1)
_HEAD = [
    "| rule | " + " | ".join(map(version_of, _MINORS)) + " | what later releases do | example |",
    "| --- |" + " --- |" * (len(_MINORS) + 2),
]
_TABLE = re.compile(r"^\| rule \|.*\n(?:\|.*\n)*", re.MULTILINE)


def table() -> str:
    """Return the table as it should be."""
    return "\n".join([*_HEAD, *_rows()]) + "\n"


def written() -> str:
    """Return the table as it is in the page."""
    [found] = _TABLE.findall(PAGE.read_text())
    return str(found)


def _rows() -> Iterator[str]:
    """The rules in their order, with the comment above each, and the headings: comments above an empty line.

    A rule without a comment shares that of the rule before it.
    """
    comment: list[str] = []
    before = ""
    examples = compat.read_examples()
    for line in Path(rules.__file__).read_text().partition("class Rules:")[2].partition("\ndef ")[0].splitlines():
        text = line.strip()
        if text.startswith("# "):
            comment.append(text.removeprefix("# "))
        elif found := re.match(r"(\w+): bool = ", text):
            described = " ".join(comment) or f"see `{before}`"
            yield f"| `{found[1]}` | {' | '.join(_cells(found[1]))} | {described} | {_example(found[1], examples)} |"
            comment, before = [], found[1]
        elif comment and not text:
            yield f"| **{' '.join(comment).removesuffix('.')}** |" + " |" * (len(_MINORS) + 2)
            comment = []


def _example(rule: str, examples: Sequence[compat.Example]) -> str:
    """The examples that show a rule, or the word for the reason why none does."""
    names = [f"`{example.name}`" for example in examples if rule in example.shows]
    return ", ".join(names) or compat.reason_for_no_example(rule)


def _cells(rule: str) -> Iterator[str]:
    """Per release: on, or gate if a feature gate turns it on."""
    for minor in _MINORS:
        gates = followed_gates(minor) & known_gates(minor).keys()
        if getattr(rules_of(minor), rule):
            yield "on"
        else:
            yield "gate" if getattr(rules_of(minor, dict.fromkeys(gates, True)), rule) else ""


if __name__ == "__main__":
    PAGE.write_text(_TABLE.sub(lambda _: table(), PAGE.read_text()))

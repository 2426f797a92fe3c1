"""Pinned cases: written by hand, for rules that random cases seldom reach, with the reference's verdicts on them.

The cases are in pinned_cases.yaml, each a document in the form of tests/oracle/README.md. `python -m
tests.conformance.pinned` asks the oracle, and writes pinned_verdicts.jsonl.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import yaml

from tests.conformance import oracle

CASES = Path(__file__).with_name("pinned_cases.yaml")
VERDICTS = Path(__file__).with_name("pinned_verdicts.jsonl")


def pinned_lines() -> Iterator[bytes]:
    """Iterate over the cases, as JSON."""
    with CASES.open() as file:
        yield from (msgspec.json.encode(case) + b"\n" for case in yaml.safe_load_all(file))


if __name__ == "__main__":
    VERDICTS.write_bytes(oracle.ask(b"".join(pinned_lines())))

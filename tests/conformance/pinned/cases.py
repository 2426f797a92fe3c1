"""Pinned cases: written by hand, for rules that random cases seldom reach, with the reference's verdicts on them.

The cases are in cases.yaml, each a document in the form of tests/oracle/README.md. `python -m tests.conformance.pinned`
asks the oracle, and writes verdicts.jsonl.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import yaml

CASES = Path(__file__).with_name("cases.yaml")
VERDICTS = Path(__file__).with_name("verdicts.jsonl")


def pinned_lines() -> Iterator[bytes]:
    """Iterate over the cases, as JSON."""
    with CASES.open() as file:
        yield from (msgspec.json.encode(case) + b"\n" for case in yaml.safe_load_all(file))

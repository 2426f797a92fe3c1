"""Golden cases: kube-scheduler's answers on some, kept so that they can be compared without Go."""

import gzip
import json
from pathlib import Path
from typing import Any

from tests.lockstep.hints.comparison import ask, encoded
from tests.lockstep.hints.generator import cases

CASES = Path(__file__).with_name("golden.cases.jsonl.gz")
ANSWERS = Path(__file__).with_name("golden.answers.jsonl.gz")
SEED = 1
COUNT = 80


def make() -> None:
    """Write new golden files."""
    made = encoded(cases(SEED, COUNT))
    # Without a time, the same lines make the same file.
    CASES.write_bytes(gzip.compress(made, mtime=0))
    ANSWERS.write_bytes(gzip.compress(encoded(ask(made)), mtime=0))


def read(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a golden file."""
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]

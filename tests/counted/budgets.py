"""How many bytecodes each case may execute."""

import sys
from pathlib import Path

import msgspec

from tests.counted.cases import CASES

FILE = Path(__file__).parent / "budgets.json"
# Python that budgets are for, the oldest that the service runs on. Newer ones execute some percent fewer bytecodes.
PYTHON = (3, 11)

_MOST, _LEAST = 1.05, 0.7

# By case, then by number of nodes.
Counts = dict[str, dict[int, int]]


def read() -> Counts:
    """The budgets as they were committed."""
    return msgspec.json.decode(FILE.read_bytes(), type=Counts)


def write(counts: Counts) -> None:
    """Make these the budgets."""
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(counts)) + b"\n")


def counted(name: str, nodes: int) -> int:
    """Count a case. The result does not depend on what was counted before."""
    return CASES[name].count(nodes)


def problem(count: int, budget: int, python: tuple[int, int] = sys.version_info[:2]) -> str | None:
    """Say what is wrong with a count, None if nothing is."""
    if count > budget * _MOST:
        return f"{count} bytecodes, the budget is {budget}"
    if count < budget * _LEAST and python == PYTHON:
        return f"only {count} bytecodes, lower the budget of {budget}"
    return None

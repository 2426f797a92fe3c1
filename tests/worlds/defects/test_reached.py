"""A world without a defect shows which defects it reaches: those whose changed statements run."""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from tests.worlds.defects.reached import REACHED, mark

OLD = '''
def sign(number):
    """Return it."""
    if number < 0:
        return -1
    try:
        found = {
            "is": 1,
        }
    except ValueError:
        found = {}

    return found["is"]
'''


@pytest.fixture
def module() -> Iterator[Any]:
    """The old source as a module that is loaded."""
    made = ModuleType("made_for_marks")
    exec(OLD, vars(made))
    sys.modules[made.__name__] = made
    REACHED.clear()
    yield made
    REACHED.clear()
    del sys.modules[made.__name__]


@pytest.mark.parametrize(
    ("before", "after", "reached_by"),
    [
        ("return -1", "return 1", [-5]),
        ("number < 0", "number <= 0", [-5, 5]),
        ('"is": 1', '"is": 2', [5]),
        ("        found = {}\n", "        raise\n", []),
        ("    return found", "    found = found\n    return found", [5]),
        ("def sign(number):", "def sign(number=0):", [-5, 5]),
    ],
)
def test_what_runs_what_was_changed(module: Any, before: str, after: str, reached_by: list[int]) -> None:
    assert OLD.count(before) == 1
    mark({"it": [(module.__name__, OLD, OLD.replace(before, after))]})
    for number in (-5, 5):
        REACHED.clear()
        assert module.sign(number) == (-1 if number < 0 else 1)
        assert ({"it"} if number in reached_by else set()) == REACHED

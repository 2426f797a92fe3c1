"""A loaded module runs the code of another source, and nothing but bodies of functions may differ."""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from tests.worlds.defects.changed_code import change_module

OLD = """
import math

class Shape:
    def __init__(self, size):
        self.size = size

    @property
    def area(self):
        return self.size ** 2

    def scaled(self, factor):
        return [type(self)(each * factor).size for each in (self.size,)]

def double(number):
    return 2 * number
"""


@pytest.fixture
def module() -> Iterator[Any]:
    """The old source as a module that is loaded."""
    made = ModuleType("made_for_a_test")
    exec(OLD, vars(made))
    sys.modules[made.__name__] = made
    yield made
    del sys.modules[made.__name__]


def test_objects_that_are_there_run_the_new_code(module: Any) -> None:
    shape, double = module.Shape(3), module.double
    new = OLD.replace("self.size ** 2", "math.floor(HALF * self.size)").replace("2 * number", "3 * number")
    change_module("made_for_a_test", OLD, new.replace("import math", "import math\nHALF = 0.5"))
    assert shape.area == 1
    assert double(5) == 15
    assert shape.scaled(2) == [6]


def test_what_only_moves_in_the_file_is_no_change(module: Any) -> None:
    with pytest.raises(ValueError, match="no function of made_for_a_test is changed"):
        change_module("made_for_a_test", OLD, f"\n\n{OLD}")
    assert module.double(5) == 10


def test_a_function_that_is_not_there_is_refused(module: Any) -> None:
    with pytest.raises(ValueError, match="triple is not there"):
        change_module("made_for_a_test", OLD, f"{OLD}\ndef triple(number):\n    return 3 * number\n")
    assert not hasattr(module, "triple")

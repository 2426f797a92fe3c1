"""Time and randomness enter at construction: no module reads them in a function, except where a program is wired."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import extender_service

PACKAGE = Path(extender_service.__file__).parent
# What reads time or draws at random, by the start of its dotted name.
READS = (
    "time.",
    "random.",
    "secrets.",
    "uuid.",
    "os.urandom",
    "numpy.random.",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
)
# Modules that may do so, with what they read. `command/` wires programs.
EXCEPTIONS = {
    # Makes the machine of a program that gets no other: its random source, and its clocks.
    "seams.py": {
        "random.Random",
        "time.clock_gettime",
        "time.CLOCK_MONOTONIC",
        "time.monotonic",
        "time.time",
        "time.time_ns",
    },
    "simulation/simulation.py": {"random.Random"},  # by default with a fixed seed: equal input, equal outcomes
}


def reads(code: str) -> set[str]:
    """The dotted names of what code reads time or draws at random with, apart from defaults and types of parameters."""
    tree = ast.parse(code)
    imported = dict(_imported(tree))
    ignored = {id(node) for part in _ignored(tree) for node in ast.walk(part)}
    names = (_dotted(node, imported) for node in ast.walk(tree) if id(node) not in ignored)
    return {name for name in names if any(name.startswith(start) for start in READS)}


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """What names at hand stand for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield (name.asname, name.name) if name.asname else (name.name.partition(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom):
            yield from ((name.asname or name.name, f"{node.module}.{name.name}") for name in node.names)


def _ignored(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments):
            yield from (
                default for default in (*node.defaults, *node.kw_defaults) if isinstance(default, ast.Attribute)
            )
        annotations = (getattr(node, "annotation", None), getattr(node, "returns", None))
        yield from (annotation for annotation in annotations if annotation is not None)


def _dotted(node: ast.AST, imported: dict[str, str]) -> str:
    if isinstance(node, ast.Name):
        return imported.get(node.id, "")
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value, imported)
        return owner and f"{owner}.{node.attr}"
    return ""


MODULES = [path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")]


@pytest.mark.parametrize("module", [module for module in MODULES if not module.startswith("command/")])
def test_no_module_reads_time_or_draws_at_random_by_itself(module: str) -> None:
    found = reads((PACKAGE / module).read_text())
    assert found == EXCEPTIONS.get(module, set()), "take a clock or a random source at construction: see seams.py"


# What runs as a scheduler must give one history for one clock and one seed: here no default of a parameter reads time
# either, and nothing sleeps.
TIMELESS_ROOMS = ("queue/", "scheduler/")
TIMELESS_MODULES = {"time", "random", "datetime", "secrets", "uuid"}


def timed(code: str) -> set[str]:
    """The modules of time and chance that code imports, and the sleeps that it calls."""
    tree = ast.parse(code)
    imported = dict(_imported(tree))
    modules = {name.partition(".")[0] for name in imported.values()} & TIMELESS_MODULES
    return modules | {name for node in ast.walk(tree) if (name := _dotted(node, imported)).endswith(".sleep")}


@pytest.mark.parametrize("module", [module for module in MODULES if module.startswith(TIMELESS_ROOMS)])
def test_rooms_of_the_scheduler_know_neither_time_nor_chance(module: str) -> None:
    assert timed((PACKAGE / module).read_text()) == set()


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import time\ndef f(clock=time.monotonic): return clock()", {"time"}),
        ("from random import Random", {"random"}),
        ("from asyncio import sleep\nasync def f(): await sleep(1)", {"asyncio.sleep"}),
        ("import asyncio\nasync def f(): await asyncio.sleep(1)", {"asyncio.sleep"}),
        ("import asyncio\nfrom extender_service.seams import Clock", set()),
    ],
)
def test_time_and_chance_are_found_in_rooms_of_the_scheduler(code: str, found: set[str]) -> None:
    assert timed(code) == found


def test_there_are_no_exceptions_for_modules_that_are_gone() -> None:
    assert EXCEPTIONS.keys() <= set(MODULES)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import time\ndef now(): return time.time()", "time.time"),
        ("import time as clock\ndef now(): return clock.perf_counter_ns()", "time.perf_counter_ns"),
        ("from time import monotonic as now\nstarted = now()", "time.monotonic"),
        ("def draw():\n    import random\n    return random.random()", "random.random"),
        ("import random\nclass Backoff:\n    def __init__(self): self.draw = random.uniform", "random.uniform"),
        ("from random import Random\nsource = Random(1)", "random.Random"),
        ("from datetime import UTC, datetime\nat = datetime.now(UTC)", "datetime.datetime.now"),
        ("import time\ndef wait(started=time.monotonic()): return started", "time.monotonic"),
        ("import numpy as np\ndraws = np.random.default_rng()", "numpy.random.default_rng"),
    ],
)
def test_reading_by_any_name_is_found(code: str, expected: str) -> None:
    assert expected in reads(code)


@pytest.mark.parametrize(
    "code",
    [
        "import time\nclass Expectations:\n    def __init__(self, clock=time.monotonic): self.clock = clock",
        "from random import Random\ndef choose(source: Random) -> int: return source.randrange(3)",
        "from datetime import UTC, datetime\ndef text(at): return datetime.fromtimestamp(at, UTC)",
    ],
)
def test_a_default_a_type_and_arithmetic_are_no_reading(code: str) -> None:
    assert reads(code) == set()

"""Time and randomness enter at construction: no module reads them in a function, except where a program is wired.

A parameter may have the machine's clock or random source as its default, for tests and for users' code. A program has
its own, and no call in the package leaves it out.
"""

import ast
from collections.abc import Iterator, Mapping
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


FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
# The defaults that stand for this machine's time and chance, by the start of their dotted names.
MACHINE = (*READS, *(f"extender_service.seams.{name}" for name in ("BOOT_CLOCK", "RANDOM", "THIS_MACHINE")))
Seams = dict[str, int | None]
"""The parameters with such a default, and their positions: None for one that is passed by keyword only."""


class Code:
    """Some code, by dotted name of its module, and which of its functions and classes take a clock or random source."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._trees = {module: ast.parse(code) for module, code in modules.items()}
        self._seams: dict[str, Seams] = {}
        self._bases: dict[str, list[str]] = {}
        self._names: dict[str, dict[str, str]] = {}
        for module, tree in self._trees.items():
            defined = [node for node in tree.body if isinstance(node, (*FUNCTION, ast.ClassDef))]
            names = {**dict(_imported(tree)), **{node.name: f"{module}.{node.name}" for node in defined}}
            self._names[module] = names
            for node in defined:
                if isinstance(node, ast.ClassDef):
                    self._bases[names[node.name]] = [_dotted(base, names) for base in node.bases]
                found = _of_class(node, names) if isinstance(node, ast.ClassDef) else _of_parameters(node, names)
                if found is not None:
                    self._seams[names[node.name]] = found

    def omissions(self) -> Iterator[str]:
        """Yield the calls that leave such a parameter to its default, and the methods that have one.

        Calls of methods, and of what a variable holds, cannot be followed here.
        """
        for module, tree in self._trees.items():
            names = self._names[module]
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    methods = [each for each in node.body if isinstance(each, FUNCTION) and each.name != "__init__"]
                    yield from (f"{module}: {each.name} has one" for each in methods if _of_parameters(each, names))
                elif isinstance(node, ast.Call):
                    called, arguments = _called(node, names)
                    left_out = _left_out(self._seams_of(called), arguments, node.keywords)
                    yield from (f"{module}: {called.rpartition('.')[2]} without {each}" for each in left_out)

    def _seams_of(self, called: str) -> Seams:
        if called in self._seams:
            return self._seams[called]
        return next(filter(None, map(self._seams_of, self._bases.get(called, ()))), {})


def _of_class(node: ast.ClassDef, names: dict[str, str]) -> Seams | None:
    """What its constructor takes, or by its fields that of a dataclass; None if neither is here."""
    for each in node.body:
        if isinstance(each, FUNCTION) and each.name == "__init__":
            return _of_parameters(each, names, bound=1)
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
    if not fields:
        return None
    return {ast.unparse(each.target): at for at, each in enumerate(fields) if _is_machine(each.value, names)}


def _of_parameters(node: ast.FunctionDef | ast.AsyncFunctionDef, names: dict[str, str], bound: int = 0) -> Seams:
    given = node.args
    positional = [*given.posonlyargs, *given.args]
    first = len(positional) - len(given.defaults)
    found: Seams = {
        positional[at].arg: at - bound
        for at, default in enumerate(given.defaults, first)
        if _is_machine(default, names)
    }
    by_keyword = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    return found | {parameter.arg: None for parameter, default in by_keyword if _is_machine(default, names)}


def _is_machine(default: ast.expr | None, names: dict[str, str]) -> bool:
    return default is not None and _dotted(default, names).startswith(MACHINE)


def _called(node: ast.Call, names: dict[str, str]) -> tuple[str, list[ast.expr]]:
    """What is called, now or by functools.partial later, and with which arguments by position."""
    called = _dotted(node.func, names)
    if called == "functools.partial" and node.args:
        return _dotted(node.args[0], names), node.args[1:]
    return called, node.args


def _left_out(seams: Seams, arguments: list[ast.expr], keywords: list[ast.keyword]) -> Iterator[str]:
    passed = {keyword.arg for keyword in keywords}
    if None in passed or any(isinstance(each, ast.Starred) for each in arguments):
        return  # unpacked: what is in there is not known
    for parameter, position in seams.items():
        if parameter not in passed and (position is None or position >= len(arguments)):
            yield parameter


def test_no_call_leaves_a_clock_or_a_random_source_to_its_default() -> None:
    modules = {path: path.relative_to(PACKAGE.parent).with_suffix("").parts for path in PACKAGE.rglob("*.py")}
    found = Code({".".join(parts): path.read_text() for path, parts in modules.items()}).omissions()
    # The machine of a program that gets no other is made there.
    left_out = [each for each in found if not each.startswith("extender_service.seams: Machine ")]
    assert left_out == [], "pass the program's own: all its parts share one clock and one random source"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("K(1)", ["K without clock"]),
        ("K(1, c)", []),
        ("K(1, clock=c)", []),
        ("K(**facts)", []),
        ("K(*facts)", []),
        ("partial(K, 1)", ["K without clock"]),
        ("partial(K, 1, c)", []),
        ("class L(K): pass\nL(1)", ["L without clock"]),
        ("class L(K):\n    def __init__(self): pass\nL()", []),
        ("f()", ["f without random", "f without wall"]),
        ("f(wall=w, random=r)", []),
        ("D(1)", ["D without clock"]),
        ("D(1, c)", []),
        ("class M:\n    def m(self, clock=time.monotonic): pass", ["m has one"]),
    ],
)
def test_what_a_call_leaves_out_is_found(code: str, found: list[str]) -> None:
    defined = """
import time
from extender_service.seams import RANDOM, Clock
class K:
    def __init__(self, a, clock=time.monotonic): pass
class D:
    a: int
    clock: Clock = time.monotonic
def f(*, random=RANDOM, wall=time.time, b=1): pass
"""
    imports = "import time\nfrom functools import partial\nfrom p.a import D, K, f\n"
    omissions = Code({"p.a": defined, "p.b": imports + code}).omissions()
    assert [each.removeprefix("p.b: ") for each in omissions] == found


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

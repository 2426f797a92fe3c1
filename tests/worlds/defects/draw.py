"""Draw defects by a mutation tester, mutmut, so that they are not only those that come to a person's mind.

    python -m tests.worlds.defects.draw --seed 23 --count 10

Mutations are drawn one after the other from the parts that worlds are to test. One is left out if it changes a text, if
the type checker reports it, or if the module's unit tests pass with it: it may change nothing that can be seen. So is
one with which these tests do not end, and one outside of functions, which cannot be planted. The others are written to
`drawn/`.
"""

import argparse
import difflib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import libcst
from mutmut.mutation.file_mutation import create_mutations

from tests.worlds.defects.changed_code import changed_functions
from tests.worlds.defects.planted import Defect, plant

_ROOT: Final = Path(__file__).parents[3]
_DRAWN: Final = Path(__file__).parent / "drawn"
_DRAWN_FROM: Final = (
    "cluster/state/placements.py",
    "cluster/state/cluster.py",
    "kube/watching/reflector.py",
    "queue/backoff_queue.py",
    "queue/nominator.py",
    "queue/scheduling_queue.py",
    "queue/unschedulable_pods.py",
    "queue/waiting_queues.py",
    "scheduler/bindings.py",
    "scheduler/event_handlers.py",
    "scheduler/failure_handler.py",
    "scheduler/leader_election.py",
    "scheduler/preempting.py",
    "scheduler/scheduler.py",
    "scheduling/binder.py",
    "scheduling/binding_cycle.py",
    "scheduling/confirmations.py",
)
_TEST_SECONDS: Final = 600.0
_TEXTS: Final = (libcst.SimpleString, libcst.FormattedString, libcst.ConcatenatedString)


def main() -> None:
    """Draw them."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.worlds.defects.draw",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=23)
    parser.add_argument("--count", type=int, default=10)
    options = parser.parse_args()
    _DRAWN.mkdir(exist_ok=True)
    drawn = 0
    for path, changed in _mutations(Random(options.seed)):
        if drawn == options.count:
            break
        text = _text(path, changed, options.seed)
        if _is_seen(text, path):
            drawn += 1
            name = f"{Path(path).stem.replace('_', '-')}-{options.seed}-{drawn}.patch"
            (_DRAWN / name).write_text(text)
            print(name, flush=True)


def _mutations(random: Random) -> Iterator[tuple[str, str]]:
    """Yield modules of the package, and what they are with one mutation, by chance."""
    while True:
        path = random.choice(_DRAWN_FROM)
        code = (_ROOT / "extender_service" / path).read_text()
        module, mutations, _, _ = create_mutations(path, code)
        mutation = random.choice(mutations)
        changed: Any = module.deep_replace(mutation.original_node, mutation.mutated_node)
        if not _changes_text(mutation.original_node) and changed_functions(path, code, changed.code):
            yield path, changed.code


def _changes_text(node: libcst.CSTNode) -> bool:
    """Return whether a mutation of this node may only change what people read: texts, logs and errors."""
    if isinstance(node, _TEXTS):
        return True
    code = libcst.Module(body=[]).code_for_node(node)
    return "log." in code or "logger." in code or "Error(" in code or '"' in code


def _text(path: str, changed: str, seed: int) -> str:
    old = (_ROOT / "extender_service" / path).read_text()
    name = f"extender_service/{path}"
    lines = difflib.unified_diff(old.splitlines(True), changed.splitlines(True), f"a/{name}", f"b/{name}", n=2)
    return f"A mutation of {path}.\nSource: drawn by mutmut with the seed {seed}\n\n{''.join(lines)}"


def _is_seen(text: str, path: str) -> bool:
    """Return whether the type checker lets a mutation pass, and the module's unit tests do not."""
    with tempfile.TemporaryDirectory(prefix="drawn-") as parent:
        patch, folder = Path(parent) / "mutation.patch", f"{parent}/product"
        patch.write_text(text)
        Path(folder).mkdir()
        plant(Defect("", patch, "", ""), Path(folder))
        module = Path(path)
        tests = f"tests/unit/{module.parent}/test_{module.stem}.py"
        pytest = [sys.executable, "-m", "pytest", "-q", "-x", "-c", str(_ROOT / "pyproject.toml"), "--rootdir", folder]
        # With a cache from one to the next: the modules that are not changed keep their times.
        mypy = [sys.executable, "-m", "mypy", "--config-file", str(_ROOT / "pyproject.toml")]
        mypy += ["--cache-dir", str(_ROOT / "build" / "mypy-of-mutants"), "extender_service"]
        try:
            is_noticed = not _passes(folder, *pytest, "-p", "no:cacheprovider", tests)
        except subprocess.TimeoutExpired:
            return False
        return is_noticed and _passes(folder, *mypy)


def _passes(folder: str, *command: str) -> bool:
    environment = {**os.environ, "PYTHONPATH": folder}
    ran = subprocess.run(
        command, cwd=folder, env=environment, check=False, stdout=subprocess.DEVNULL, timeout=_TEST_SECONDS
    )
    return ran.returncode == 0


if __name__ == "__main__":
    main()

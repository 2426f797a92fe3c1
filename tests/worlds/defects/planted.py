"""Planted defects: patches of the product, each applied to a copy of it, to see after how many worlds it is found.

A patch begins with what it does to users, `Source:` and where the defect was met, and `Mode:` if it takes worlds with
`serve`. Those in `known/` are defects that schedulers have had. Those in `drawn/` were drawn by a mutation tester.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.worlds.finding.forked import Limits, forked
from tests.worlds.finding.small_worlds import small_world
from tests.worlds.finding.world_run import run_world
from tests.worlds.scenarios import Mode, Scenario

_ROOT: Final = Path(__file__).parents[3]
_PACKAGE: Final = "extender_service"
_HEADER: Final = re.compile(
    r"(?P<what>.+?)\nSource: (?P<source>[^\n]+)\n(Mode: (?P<mode>beside|replace)\n)?\n", re.DOTALL
)
_FAILED: Final = re.compile(r"^seed (\d+) failed.*\n.*\n {2}(.*)", re.MULTILINE)
# Real time of a small world.
_LIMIT_SECONDS: Final = 120.0


@dataclass(frozen=True)
class Defect:
    """A planted defect. `mode` is that of `serve`, none if it takes worlds with `schedule` alone."""

    name: str
    patch: Path
    what: str
    source: str
    mode: Mode | None = None

    def options(self) -> Sequence[str]:
        """Return the options of worlds that may find it."""
        return ("--small", *(("--mode", self.mode) if self.mode else ()))


@dataclass(frozen=True)
class Found:
    """The first seed by which a defect was found, and what was violated."""

    seed: int
    violation: str


def defects() -> list[Defect]:
    """Return all planted defects. Raises ValueError for a patch whose head is not as it should be."""
    return [_read(patch) for patch in sorted(Path(__file__).parent.glob("*/*.patch"))]


def plant(defect: Defect, folder: Path) -> None:
    """Make a copy of the product with the defect, and the tests beside it. Raises CalledProcessError if it cannot."""
    shutil.copytree(_ROOT / _PACKAGE, folder / _PACKAGE, symlinks=True)
    (folder / "tests").symlink_to(_ROOT / "tests", target_is_directory=True)
    # Outside of any repository: git would leave out what is not in its own.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    command = ["git", "apply", "-C1", str(defect.patch)]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)


def find(
    defect: Defect, folder: Path, *, first: int, worlds: int, seconds: float, jobs: int | None = None
) -> Found | None:
    """Run worlds of the product in `folder`, from the seed `first` on, until one fails; None if none does in time.

    A world that fails without the defect, too, does not count.
    """
    seed, ends_at = first, time.monotonic() + seconds
    while seed < first + worlds and (left := ends_at - time.monotonic()) > 0:
        found = _first_failed(defect, folder, seed, first + worlds - seed, left, jobs)
        if found is None or not _fails_without_it(small_world(found.seed, defect.mode)):
            return found
        seed = found.seed + 1
    return None


def _first_failed(
    defect: Defect, folder: Path, first: int, worlds: int, seconds: float, jobs: int | None
) -> Found | None:
    bounds = ("--seed", str(first), "--seeds", str(worlds), "--seconds", str(seconds), "--failures", "1")
    options = [
        *bounds,
        *defect.options(),
        "--limit-seconds",
        str(_LIMIT_SECONDS),
        *(["--jobs", str(jobs)] if jobs else []),
    ]
    # The folder comes before the repository, to which the installed package refers.
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "tests.worlds", *options]
    ran = subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)
    failed = _FAILED.search(ran.stdout)
    if failed is not None:
        return Found(int(failed[1]), failed[2])
    if ran.returncode:
        raise RuntimeError(f"worlds with {defect.name} could not be run:\n{ran.stderr}")
    return None


def _fails_without_it(scenario: Scenario) -> bool:
    """Return whether a world fails in the product as it is, which this process has."""
    (ended,) = forked([scenario], _violations, Limits(1, _LIMIT_SECONDS))
    return ended.answer != b""


def _violations(scenario: Scenario) -> bytes:
    return "\n".join(run_world(scenario)[0].violations).encode()


def _read(patch: Path) -> Defect:
    head = _HEADER.match(patch.read_text())
    if head is None:
        raise ValueError(f"{patch.name} begins with no description and source")
    mode: Mode | None = "beside" if head["mode"] == "beside" else "replace" if head["mode"] else None
    return Defect(patch.stem, patch, " ".join(head["what"].split()), head["source"], mode)

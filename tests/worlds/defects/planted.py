"""Planted defects: patches of the product, each applied to a copy of it, to see after how many worlds it is found.

A patch begins with what it does to users, `Source:` and where the defect was met, `Mode:` if it takes worlds with
`serve`, and `Wanted:` if it takes worlds with settings and features that no seed has by itself. Those in `known/` are
defects that schedulers have had. Those in `drawn/` were drawn by a mutation tester.
"""

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.worlds.scenarios import Mode

_ROOT: Final = Path(__file__).parents[3]
_PACKAGE: Final = "extender_service"
_HEADER: Final = re.compile(
    r"(?P<what>.+?)\nSource: (?P<source>[^\n]+)\n(Mode: (?P<mode>beside|replace)\n)?(Wanted: (?P<wanted>[^\n]+)\n)?\n",
    re.DOTALL,
)
# The name of a module, its source, and its source with a defect.
Change = tuple[str, str, str]


@dataclass(frozen=True)
class Defect:
    """A planted defect. `mode` is that of `serve`, none if it takes worlds with `schedule` alone.

    `wanted` is what these worlds have in any case.
    """

    name: str
    patch: Path
    what: str
    source: str
    mode: Mode | None = None
    wanted: frozenset[str] = frozenset()


def defects() -> list[Defect]:
    """Return all planted defects. Raises ValueError for a patch whose head is not as it should be."""
    return [_read(patch) for patch in sorted(Path(__file__).parent.glob("*/*.patch"))]


def plant(defect: Defect, folder: Path) -> None:
    """Make a copy of the product with the defect, and the tests beside it. Raises CalledProcessError if it cannot."""
    shutil.copytree(_ROOT / _PACKAGE, folder / _PACKAGE, symlinks=True)
    (folder / "tests").symlink_to(_ROOT / "tests", target_is_directory=True)
    _apply(defect, folder)


def changes(defect: Defect) -> list[Change]:
    """Return what the defect makes of each module that it changes. Raises CalledProcessError if it does not fit."""
    paths = [line[6:] for line in defect.patch.read_text().splitlines() if line.startswith("+++ b/")]
    with tempfile.TemporaryDirectory(prefix="defect-") as name:
        folder = Path(name)
        for path in paths:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(_ROOT / path, folder / path)
        _apply(defect, folder)
        return [
            (path.removesuffix(".py").replace("/", "."), (_ROOT / path).read_text(), (folder / path).read_text())
            for path in paths
        ]


def _apply(defect: Defect, folder: Path) -> None:
    # Outside of any repository: git would leave out what is not in its own.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    command = ["git", "apply", "-C1", str(defect.patch)]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)


def _read(patch: Path) -> Defect:
    head = _HEADER.match(patch.read_text())
    if head is None:
        raise ValueError(f"{patch.name} begins with no description and source")
    mode: Mode | None = "beside" if head["mode"] == "beside" else "replace" if head["mode"] else None
    wanted = frozenset((head["wanted"] or "").split())
    return Defect(patch.stem, patch, " ".join(head["what"].split()), head["source"], mode, wanted)

"""The planted defects: each can be planted, and some are found by a world that is known to."""

import compileall
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worlds.defects.planted import Defect, defects, plant


@pytest.mark.parametrize("defect", defects(), ids=lambda defect: defect.name)
def test_can_be_planted(defect: Defect, tmp_path: Path) -> None:
    plant(defect, tmp_path)
    changed = [line[6:] for line in defect.patch.read_text().splitlines() if line.startswith("+++ b/")]
    assert changed
    assert all(compileall.compile_file(tmp_path / path, quiet=1) for path in changed)


def test_a_patch_may_name_what_its_worlds_have() -> None:
    (defect,) = [each for each in defects() if each.name == "old-lease-read-counts"]
    assert defect.what.startswith("`serve` goes on by the last read of the lease, however old: ")
    assert defect.mode == "replace"
    assert defect.wanted == {"leader-lease", "preparations", "rival"}


def test_some_are_found_by_the_first_small_world() -> None:
    """In a process of its own, whose hash seed is fixed."""
    names = ("half-open-watch", "removed-node-kept", "unschedulable-pods-23-1")
    only = [argument for name in names for argument in ("--only", name)]
    command = [sys.executable, "-m", "tests.worlds.defects", "--seed", "1", "--seeds", "1", *only]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.endswith("3 of 3 found\n")

"""The planted defects: each can be planted, and some are found by a world that is known to."""

import compileall
from pathlib import Path

import pytest

from tests.worlds.defects.planted import Defect, defects, plant


@pytest.mark.parametrize("defect", defects(), ids=lambda defect: defect.name)
def test_can_be_planted(defect: Defect, tmp_path: Path) -> None:
    plant(defect, tmp_path)
    changed = [line[6:] for line in defect.patch.read_text().splitlines() if line.startswith("+++ b/")]
    assert changed
    assert all(compileall.compile_file(tmp_path / path, quiet=1) for path in changed)

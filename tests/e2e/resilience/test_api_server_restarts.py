"""The API server is killed and started again while many bindings are under way.

A few times here; `python -m tests.faults.restarts` does it as often as one likes, and measures how soon all is well.
"""

from pathlib import Path

import pytest

from tests.e2e.support.programs.control_plane import ControlPlane
from tests.faults.restarts import run


@pytest.mark.timeout(600)
def test_after_each_restart_all_kinds_are_watched_and_all_pods_get_bound(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    rounds = run(control_plane, tmp_path, 3, print)
    assert [each.complaints for each in rounds] == [[], [], []]

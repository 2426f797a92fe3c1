"""Whatever happens between the service and the API server, the service knows the cluster again soon afterwards.

Each fault happens once, beside other tests; `python -m tests.faults` has them happen as often as one likes, and allows
less time.
"""

from pathlib import Path

import pytest

from tests.e2e.support.programs.control_plane import ControlPlane
from tests.faults.faults import FAULTS
from tests.faults.matrix import run, table
from tests.faults.scene import Scene


@pytest.mark.timeout(600)
def test_the_service_recovers_from_every_fault(control_plane: ControlPlane, tmp_path: Path) -> None:
    progress: list[str] = []
    with Scene(control_plane, tmp_path, seed=1) as scene:
        outcomes = run(scene, FAULTS, 1, progress.append, within_seconds=30.0)
    print("\n".join([*progress, *table(outcomes)]))
    assert [outcome for outcome in outcomes if not outcome.is_good] == []

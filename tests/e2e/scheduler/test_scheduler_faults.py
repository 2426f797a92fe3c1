"""A sample of tests/scheduler_faults: a small cluster, a short lease, and the faults that the leader survives."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scheduler_faults.faults import freeze_the_leader, partition_the_leader
from tests.scheduler_faults.run import Size, run

# A leader has 5 s to renew its lease, and a standby 16 s to lead.
pytestmark = pytest.mark.alone

SAMPLE = Size(
    hundreds=1,
    share_of_pods=0.5,
    faults=(partition_the_leader, freeze_the_leader),
    creation_seconds=5.0,
    election={"leaseDuration": "6s", "renewDeadline": "5s", "retryPeriod": "500ms"},
    pause_seconds=1.0,
    leads_within_seconds=16.0,
)


def test_every_pod_is_bound_once_and_well_though_leaders_are_partitioned_and_frozen(
    controlplane: Path, tmp_path: Path, ask_oracle: Callable[[bytes], bytes]
) -> None:
    lines: list[str] = []
    outcome = run(controlplane, tmp_path, ask_oracle, SAMPLE, seed=1, progress=lines.append)
    assert outcome.complaints == [], "\n".join([*lines, *outcome.report])
    assert outcome.decisions >= 280

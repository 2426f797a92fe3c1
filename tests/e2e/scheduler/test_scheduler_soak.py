"""A sample of tests/scheduler_soak: some seconds of a small cluster."""

from pathlib import Path

from tests.scheduler_soak.run import Settings, run
from tests.scheduler_soak.script import Size

SAMPLE = Size(seconds=4.0, pods_a_second=15.0, nodes=10, visitors=2, never_schedulable=8, always_gated=2)


def test_this_program_counts_as_kube_scheduler_does_and_forgets_no_pod(controlplane: Path, tmp_path: Path) -> None:
    outcome = run(controlplane, tmp_path, SAMPLE, 1, Settings(max_backoff=1), lambda _: None)
    assert outcome.complaints == []
    # Memory has not settled after some seconds.
    assert [figure for figure in outcome.figures if figure.is_fine is False and "growth" not in figure.name] == []
    [pods] = [figure for figure in outcome.figures if figure.name == "incoming PodAdd"]
    stock, ours, _ = map(float, pods.value.split())
    assert stock == ours > 30

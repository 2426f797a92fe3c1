"""A sample of tests/scheduler_soak: some seconds of a small cluster."""

from pathlib import Path

from tests.scheduler_soak.run import Settings, run
from tests.scheduler_soak.script import Size

SAMPLE = Size(seconds=4.0, pods_a_second=15.0, nodes=10, visitors=2, never_schedulable=8, always_gated=2)
# A machine that is busy delays changes, and tries pods meanwhile. After some seconds, memory has not settled.
DEPEND_ON_TIME = ("attempts unschedulable", "incoming", "preemption", "schedule:", "kube-scheduler:")


def test_this_program_schedules_as_many_pods_as_kube_scheduler_and_forgets_none(
    controlplane: Path, tmp_path: Path
) -> None:
    outcome = run(controlplane, tmp_path, SAMPLE, 1, Settings(max_backoff=1), lambda _: None)
    assert outcome.complaints == []
    figures = {figure.name: figure for figure in outcome.figures}
    missed = [name for name, figure in figures.items() if figure.is_fine is False]
    assert [name for name in missed if not name.startswith(DEPEND_ON_TIME)] == []
    stock, ours, _ = map(float, figures["incoming PodAdd"].value.split())
    assert stock == ours > 30

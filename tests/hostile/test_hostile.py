import http.client
from pathlib import Path

import pytest

from extender_service.serving.watchdog import EXIT_STUCK
from tests.e2e.support.waiting import wait_until
from tests.hostile.attacks import is_decided_about
from tests.hostile.pods import pod
from tests.hostile.rounds import run
from tests.hostile.stubborn import Stubborn
from tests.hostile.subject import Subject

CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins:
      multiPoint:
        enabled: [{name: Stubborn}]
"""


def test_hostile_callers_take_little_and_hinder_nobody(tmp_path: Path) -> None:
    """The numbers are for a machine that does much else; `python -m tests.hostile` tells what they are."""
    results = list(run(tmp_path, nodes=200, connections=1_000, share=0.1))
    problems = {result.attack: result.problem(memory_mib=1_500, neighbour_seconds=25) for result in results}
    assert {attack: problem for attack, problem in problems.items() if problem} == {}
    assert len(problems) > 30


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    """Those of a service with a plugin that takes long."""
    configuration = tmp_path / "configuration.yaml"
    configuration.write_text(CONFIGURATION)
    return [f"--config={configuration}", f"--plugin={Stubborn.__module__}:{Stubborn.__name__}"]


def test_a_plugin_that_takes_too_long_is_an_error_in_time(tmp_path: Path, options: list[str]) -> None:
    with Subject(tmp_path, nodes=100, options=[*options, "--decision-timeout=300ms"]) as subject:
        status, answer = subject.filter(pod("slow"))
        assert (status, answer["NodeNames"]) == (200, None)
        assert answer["Error"] == (
            'running "Stubborn" filter plugin: the time for this decision is over (--decision-timeout)'
        )
        assert subject.metric('extender_service_limited_requests_total{limit="decision-time",verb="filter"}') == 1
        assert is_decided_about(pod("ordinary"), subject)


def test_a_plugin_that_never_returns_ends_the_process(tmp_path: Path, options: list[str]) -> None:
    with Subject(tmp_path, nodes=10, options=[*options, "--watchdog-timeout=1s"]) as subject:
        with pytest.raises((OSError, http.client.HTTPException)):
            subject.filter(pod("endless"))
        assert wait_until(lambda: subject.process.exit_code, "the service to end") == EXIT_STUCK
        last = subject.log_lines()[-1]
        assert "(--watchdog-timeout)" in last["msg"]
        assert "in filter_node" in last["stack"]

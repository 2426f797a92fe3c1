import argparse
import asyncio
import io
import json
import re
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest

from extender_service.command.cli import main, parser
from extender_service.command.schedule import place_file
from extender_service.command.schedule.place_file import as_text, show_progress
from extender_service.command.schedule.place_options import READ, place_options
from extender_service.config.release import NEWEST_MINOR, version_of
from extender_service.plugin_api import (
    POD,
    ActionType,
    ClusterEvent,
    CycleState,
    Filter,
    NodeView,
    Pod,
    QueueingHint,
    Rejections,
    unschedulable,
)
from extender_service.simulation import PodOutcome, Simulation
from tests.support.event_loop import in_event_loop

DEMO = Path(__file__).parents[4] / "examples" / "demo-cluster.yaml"
BIG = """
apiVersion: v1
kind: Pod
metadata: {name: big}
spec: {containers: [{name: c, resources: {requests: {cpu: "100"}}}]}
"""
A_AND_B = "".join(
    f"apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\nstatus: {{allocatable: {{cpu: 200, pods: 9}}}}\n---\n"
    for name in ("a", "b")
)


def run(*arguments: object) -> int:
    return main(["schedule", *map(str, arguments)])


def enabling(folder: Path, plugin: str) -> Path:
    """A configuration that enables a plugin besides the default ones."""
    config = folder / "config.yaml"
    plugins = f"{{multiPoint: {{enabled: [{{name: {plugin}}}]}}}}"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{schedulerName: default-scheduler, plugins: {plugins}}}]\n"
    )
    return config


def test_it_prints_where_each_pod_goes_and_why_none_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    big = tmp_path / "big.yaml"
    big.write_text(BIG)
    assert run("--cluster-file", DEMO, "--cluster-file", big) == 0
    printed = capsys.readouterr()
    why = "Unschedulable: 0/7 nodes are available: 1 node(s) had untolerated taint {nvidia.com/gpu: present}"
    lines = printed.out.splitlines()
    assert lines[0].split() == ["POD", "NODE", "WHY"]
    assert [line.split(maxsplit=2)[:2] for line in lines[1:5]] == [
        ["default/web", "general-b"],
        ["default/gateway", "general-b"],
        ["ml/training-1", "gpu-1"],
        ["default/big", "-"],
    ]
    best = r"the best of \d feasible nodes: general-b \d+, \S+ \d+ \(most by \w+: \d+ to \d+\)"
    assert all(re.fullmatch(best, line.split(maxsplit=2)[2]) for line in lines[1:3])
    assert lines[3].endswith("its nominated node (preempts ml/notebook)")
    assert why.partition(":")[0] in lines[4]
    sums = "3 of 4 pending pods placed, 1 Unschedulable, 1 running pod deleted by preemption"
    assert lines[-1] == f"{sums} (rules of kube-scheduler {version_of(NEWEST_MINOR)})."
    assert printed.err == ""


def test_a_pod_with_a_field_that_is_not_judged_yet_is_unschedulable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    claims = tmp_path / "claims.yaml"
    claims.write_text(BIG.replace("spec: {", "spec: {resourceClaims: [{name: gpu, resourceClaimName: gpu-1}], "))
    assert run("--cluster-file", DEMO, "--cluster-file", claims, "--emulated-version", "1.37") == 0
    printed = capsys.readouterr()
    reason = "pod has spec.resourceClaims, which kube-scheduler 1.37 judges and extender-service does not"
    assert f"0/7 nodes are available: 7 {reason}" in printed.out
    assert "pods are refused for a field that is not judged yet" in printed.err


def test_json_has_a_record_for_each_pod(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--cluster-file", DEMO, "--output", "json", "--emulated-version", "1.34") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["placed"], found["unplaced"], found["emulated_version"]) == (3, 0, "1.34")
    assert found["pods"][2] == {
        "namespace": "ml",
        "name": "training-1",
        "node": "gpu-1",
        "message": "its nominated node",
        "victims": ["ml/notebook"],
    }


def test_a_configuration_and_a_plugin_decide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = enabling(tmp_path, "NotOnA")
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(A_AND_B + BIG)
    plugin = "tests.unit.simulation.test_simulation:NotOnA"
    assert run("--cluster-file", cluster, "--config", config, "--plugin", plugin) == 0
    assert "default/big  b" in capsys.readouterr().out


def test_without_a_configuration_the_plugin_decides_beside_the_default_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(A_AND_B + BIG)
    assert run("--cluster-file", cluster, "--plugin", "tests.unit.simulation.test_simulation:NotOnA") == 0
    assert "default/big  b" in capsys.readouterr().out


def test_a_plugin_that_the_configuration_does_not_enable_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = enabling(tmp_path, "NodeName")
    assert run("--cluster-file", DEMO, "--config", config, "--plugin", f"{__name__}:Curious") == 0
    [line] = capsys.readouterr().err.splitlines()
    assert "level=warning" in line
    assert "no profile of --config enables it" in line
    assert "plugin=Curious" in line


def test_a_pod_that_waits_in_permit_for_others_is_rejected_by_its_timeout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = enabling(tmp_path, "Pairs")
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(A_AND_B + BIG)
    plugin = "tests.unit.simulation.test_simulation:Pairs"
    assert run("--cluster-file", cluster, "--config", config, "--plugin", plugin) == 0
    printed = capsys.readouterr().out
    assert "rejected due to timeout after waiting 1m0s at plugin Pairs" in printed
    assert "0 of 1 pending pods placed, 1 Unschedulable" in printed


def test_what_cannot_be_read_is_an_error_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("apiVersion: v1\nkind: Node\n")
    assert run("--cluster-file", broken) == 1
    assert capsys.readouterr().err == f"extender-service: {broken}: document 1: metadata.name must be given\n"


def test_options_of_a_scheduler_in_a_cluster_are_named_as_they_have_no_effect(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("--cluster-file", DEMO, "--leader-elect=false", "--decision-timeout=1s", "--output=json") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["placed"] == 3
    named = [line for line in printed.err.splitlines() if "an option has no effect" in line]
    assert [line.rpartition("option=")[2] for line in named] == ["--decision-timeout", "--leader-elect"]


def test_it_writes_no_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = tmp_path / "written.yaml"
    assert run("--cluster-file", DEMO, f"--write-config-to={written}") == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("extender-service: --write-config-to does not go with --cluster-file: ")
    assert (printed.out, written.exists()) == ("", False)


class Recording:
    """Parsed options; `read` has the names of those that were asked for."""

    def __init__(self, *arguments: str) -> None:
        self.read: set[str] = set()
        self._options = parser().parse_args(["schedule", *arguments])

    def __getattr__(self, name: str) -> Any:
        self.read.add(name)
        return getattr(self._options, name)


def test_the_options_that_are_named_are_those_that_are_not_read() -> None:
    [commands] = [each for each in parser()._actions if isinstance(each, argparse._SubParsersAction)]
    options = {each.option_strings[-1]: each.dest for each in commands.choices["schedule"]._actions}
    recording = Recording("--cluster-file", str(DEMO))
    place_options(cast(argparse.Namespace, recording))
    assert recording.read == {"given_options", *(options[name] for name in READ)}


def test_without_pending_pods_it_says_so() -> None:
    assert as_text([], "1.37") == "No pod waits for a node."


def test_several_reasons_are_counted() -> None:
    outcomes = [
        PodOutcome("default", "a", "node"),
        PodOutcome("default", "b", reason="SchedulingGated", message="waiting"),
        PodOutcome("default", "c", reason="SchedulingGated", message="waiting", victims=("x/y", "x/z")),
    ]
    sums = "1 of 3 pending pods placed, 2 SchedulingGated, 2 running pods deleted by preemption"
    assert as_text(outcomes, "1.37").splitlines()[3:] == [
        "default/c  -     SchedulingGated: waiting (preempts x/y, x/z)",
        "",
        f"{sums} (rules of kube-scheduler 1.37).",
    ]


class Terminal(io.StringIO):
    is_terminal = True

    def isatty(self) -> bool:
        return self.is_terminal


@in_event_loop
async def test_a_terminal_shows_progress_if_it_takes_long_and_is_left_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place_file, "PROGRESS_SECONDS", 0.001)
    terminal = Terminal()
    async with Simulation(files=[DEMO]) as simulation:
        progress = asyncio.create_task(show_progress(simulation, terminal))
        async with asyncio.timeout(20):
            while not terminal.getvalue():
                await asyncio.sleep(0.001)
        progress.cancel()
        await asyncio.wait([progress])
    assert "of 3 pending pods placed" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\033[K")


@in_event_loop
async def test_a_pipe_shows_no_progress() -> None:
    pipe = Terminal()
    pipe.is_terminal = False
    async with Simulation() as simulation:
        await show_progress(simulation, pipe)
    assert pipe.getvalue() == ""


def test_extenders_are_not_asked_and_a_warning_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "extenders: [{urlPrefix: 'http://127.0.0.1:1/nobody', filterVerb: filter, bindVerb: bind}]\n"
    )
    assert run("--cluster-file", DEMO, "--config", config) == 0
    printed = capsys.readouterr()
    assert "3 of 3 pending pods placed" in printed.out
    assert "extenders are not asked: the plugins alone decide" in printed.err
    assert "http://127.0.0.1:1/nobody" in printed.err


class Curious(Filter):
    """Rejects a pod that is tried before another one is bound, and notes the events that its hint is asked about."""

    name = "Curious"
    retry_on = (ClusterEvent(POD, ActionType.ADD),)
    asked: ClassVar[list[str]] = []

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: Any, new: Any) -> QueueingHint:
        self.asked.append(event.label)
        return QueueingHint.SKIP

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        if pod.metadata.name != "gateway":
            return None
        return Rejections.where(np.ones(len(nodes), np.bool_), unschedulable("never"))


@pytest.mark.parametrize("is_on", [False, True])
def test_feature_gates_count(tmp_path: Path, capsys: pytest.CaptureFixture[str], is_on: bool) -> None:
    config = enabling(tmp_path, "Curious")
    Curious.asked.clear()
    gates = f"SchedulerQueueingHints={str(is_on).lower()},CrossNamespaceVolumeDataSource=true"
    plugin = f"{__name__}:Curious"
    given = ("--config", config, "--plugin", plugin, "--emulated-version", "1.31", "--feature-gates", gates)
    assert run("--cluster-file", DEMO, *given) == 0
    printed = capsys.readouterr()
    assert "2 of 3 pending pods placed" in printed.out
    assert "CrossNamespaceVolumeDataSource" in printed.err
    assert bool(Curious.asked) == is_on

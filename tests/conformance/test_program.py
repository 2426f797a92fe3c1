"""python -m tests.conformance ends with its count, whatever the cases hold."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.conformance.__main__ import main
from tests.conformance.cases import Case, Verdict, read_cases, read_verdicts
from tests.conformance.judgement import judge

CORDONED = {"metadata": {"name": "cordoned"}, "spec": {"unschedulable": True}}
READY = {"metadata": {"name": "ready"}, "status": {"allocatable": {"cpu": "1", "pods": "5"}}}
NO_STATE = 'error reading "PreFilterNodeResourcesFit" from cycleState: not found'


def case(*nodes: dict[str, Any], without_pre_filter: str = "", name: str = "case") -> bytes:
    profile = {"plugins": {"preFilter": {"disabled": [{"name": without_pre_filter}]}}} if without_pre_filter else {}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", **profile}],
    }
    objects = [{"apiVersion": "v1", "kind": "Node", **node} for node in nodes]
    pod = {"metadata": {"name": "pod"}, "spec": {"containers": [{"name": "main"}]}}
    return msgspec.json.encode({"name": name, "config": config, "objects": objects, "pod": pod})


def decode(line: bytes) -> list[Case]:
    return read_cases(iter([line]))


def test_a_plugin_that_fails_alone_fails_on_each_node_as_in_the_reference() -> None:
    """NodeResourcesFit's filter without its preFilter, on a node that an earlier plugin rejects."""
    cordoned = {"plugin": "NodeUnschedulable", "code": "UnschedulableAndUnresolvable"}
    unschedulable = {"reasons": ["node(s) were unschedulable"]}
    verdict: Verdict = {
        "name": "case",
        "preFilter": {
            "plugin": None,
            "code": "Success",
            "reasons": [],
            "nodeNames": None,
            "skipped": [
                "InterPodAffinity",
                "NodeAffinity",
                "NodePorts",
                "NodeVolumeLimits",
                "PodTopologySpread",
                "VolumeBinding",
                "VolumeRestrictions",
                "VolumeZone",
            ],
        },
        "filter": {
            "cordoned": {**cordoned, **unschedulable},
            "ready": {
                "plugin": "NodeResourcesFit",
                "code": "Error",
                "reasons": [f'running "NodeResourcesFit" filter plugin: {NO_STATE}'],
            },
        },
        "filterByPlugin": {
            "NodeName": {},
            "NodeResourcesFit": {
                "cordoned": {"code": "Error", "reasons": [NO_STATE]},
                "ready": {"code": "Error", "reasons": [NO_STATE]},
            },
            "NodeUnschedulable": {"cordoned": {"code": "UnschedulableAndUnresolvable", **unschedulable}},
            "TaintToleration": {},
        },
        "cycleError": f'running "NodeResourcesFit" filter plugin: {NO_STATE}',
        "feasible": [],
        "preScore": None,
        "raw": None,
        "score": None,
        "total": None,
    }
    [judgement] = judge(decode(case(CORDONED, READY, without_pre_filter="NodeResourcesFit")), [verdict], ())
    assert judgement.differences == []


@pytest.mark.usefixtures("reference")
def test_cases_that_cannot_be_judged_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cases.jsonl"
    lines = [
        case(READY, name="good-1"),
        case(READY, without_pre_filter="NodeResourcesFit", name="good-2"),
        case(READY, name="bad-1").replace(b'"containers"', b'"containerz"'),
        case(name="bad-2"),
        b'{"name": "bad-3", "pod": {}, "objects": [5]}',
        b'{"name": 5}',
        b"no JSON",
    ]
    path.write_bytes(b"\n".join(lines))
    assert main([str(path), "--show", "1"]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "bad-1:"
    assert printed[-4:] == [
        "good: 2 passed, 0 failed",
        "bad: 0 passed, 3 failed",
        "unreadable: 0 passed, 2 failed",
        "2 passed, 5 failed",
    ]


def test_a_case_that_this_project_cannot_evaluate_differs() -> None:
    [cases] = [decode(case(READY).replace(b"default-scheduler", b"other-scheduler"))]
    [verdict] = read_verdicts(iter([b'{"name": "case", "feasible": ["ready"]}']))
    [judgement] = judge(cases, [verdict], ())
    assert judgement.differences == ["this project could not evaluate it: KeyError: 'default-scheduler'"]

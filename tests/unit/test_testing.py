from pathlib import Path

import pytest

from extender_service.config.plugin_args import NodeAffinityArgs
from extender_service.framework.interface import CycleState
from extender_service.framework.runtime import CycleError
from extender_service.kube.manifests import ManifestError
from extender_service.kube.objects import Pod, Taint
from extender_service.plugins.node_affinity import NodeAffinity
from extender_service.plugins.node_unschedulable import NodeUnschedulable
from extender_service.plugins.taint_toleration import TaintToleration
from extender_service.testing import Trial
from tests.unit.cluster.objects import make_node, make_pod

NODES = [
    make_node("open"),
    make_node("cordoned", unschedulable=True),
    make_node("spot", taints=[Taint("spot", "", "PreferNoSchedule")]),
    make_node("gpu", taints=[Taint("gpu", "yes", "NoSchedule")]),
]


def test_it_tells_who_is_refused_and_why() -> None:
    trial = Trial(NODES, [make_pod("elsewhere", "a-node-that-does-not-exist")])

    refusals = trial.refusals(NodeUnschedulable(None, trial.handle), Pod())

    assert refusals == {"cordoned": "node(s) were unschedulable"}


def test_it_tells_the_scores_of_those_that_are_not_refused() -> None:
    trial = Trial(NODES)
    assert trial.scores(TaintToleration(None, trial.handle), Pod()) == {"open": 100, "cordoned": 100, "spot": 0}


def test_there_are_no_scores_of_a_plugin_that_skips() -> None:
    trial = Trial(NODES)
    assert trial.scores(NodeAffinity(NodeAffinityArgs(), trial.handle), Pod()) == {}


def test_a_plugin_that_fails_is_named() -> None:
    class Broken(NodeUnschedulable):
        def filter(self, state: CycleState, pod: Pod, nodes: object) -> None:
            raise KeyError("disk")

    trial = Trial(NODES)
    with pytest.raises(CycleError, match='running "NodeUnschedulable" filter plugin: KeyError'):
        trial.refusals(Broken(None, trial.handle), Pod())


def test_the_cluster_and_the_pods_may_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "---\n{apiVersion: v1, kind: Node, metadata: {name: a}, spec: {unschedulable: true}}\n"
        "---\n{apiVersion: v1, kind: Pod, metadata: {name: web}}\n"
    )

    trial = Trial(files=[file])

    refusals = trial.refusals(NodeUnschedulable(None, trial.handle), trial.pods["default/web"])
    assert refusals == {"a": "node(s) were unschedulable"}
    with pytest.raises(ManifestError):
        Trial(files=[tmp_path / "missing.yaml"])

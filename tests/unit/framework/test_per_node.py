import re
from typing import ClassVar

import numpy as np
import pytest

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.state.node_info import NodeInfo
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.per_node import FilterNode, ScoreNode
from extender_service.framework.plugin_errors import NoTimeLeftError, PluginError
from extender_service.framework.status import Code, Status, unschedulable
from extender_service.kube.types.core import (
    Container,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    ResourceRequirements,
)
from tests.support.clock import Clock


class FewPods(FilterNode, ScoreNode):
    """Wants a labelled node with room for one more cpu, the emptier the better."""

    name: ClassVar[str] = "FewPods"

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if "wanted" not in node.labels:
            return unschedulable("node(s) were not wanted")
        return unschedulable("Insufficient cpu") if node.free("cpu") < 1000 else None

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 100 - node.pod_count


def node(name: str, cpu: str, **labels: str) -> Node:
    return Node(ObjectMeta(name=name, labels=labels), status=NodeStatus({"cpu": cpu, "pods": "10"}))


def pod(name: str, node_name: str, cpu: str) -> Pod:
    container = Container(resources=ResourceRequirements({"cpu": cpu}))
    return Pod(ObjectMeta(name=name, namespace="default", uid=name), PodSpec(node_name, containers=(container,)))


def cluster() -> Cluster:
    cluster = Cluster()
    for known_node in (node("plain", "4"), node("busy", "4", wanted="yes"), node("free", "4", wanted="yes")):
        cluster.apply_node(known_node)
    for known_pod in (pod("a", "busy", "3500m"), pod("b", "free", "1"), pod("c", "free", "1"), pod("d", "gone", "1")):
        cluster.apply_pod(known_pod)
    return cluster


def test_each_node_is_asked_about_and_keeps_its_own_reason() -> None:
    known = cluster()
    view = known.view(None)
    rejections = FewPods(None, Handle(known, ClusterFile(known, []))).filter(CycleState(Pod()), Pod(), view)
    assert rejections is not None
    reasons = [rejections.status_of(key) if key else None for key in rejections.keys.tolist()]
    by_name = dict(zip(view.names, reasons, strict=True))
    assert by_name == {
        "plain": Status(Code.UNSCHEDULABLE, ("node(s) were not wanted",)),
        "busy": Status(Code.UNSCHEDULABLE, ("Insufficient cpu",)),
        "free": None,
        "gone": None,  # pods are there, but no node: it is not asked about
    }


def test_nothing_is_rejected_where_every_node_passes() -> None:
    known = cluster()
    view = known.view(known.nodes.rows_named(["free"]))
    assert FewPods(None, Handle(known, ClusterFile(known, []))).filter(CycleState(Pod()), Pod(), view) is None


def test_each_node_is_scored() -> None:
    known = cluster()
    view = known.view(known.nodes.rows_named(["free", "plain"]))
    plugin = FewPods(None, Handle(known, ClusterFile(known, [])))
    assert np.array_equal(plugin.score(CycleState(Pod()), Pod(), view), [98, 100])


class Slow(FewPods):
    """Takes a second for each node."""

    def __init__(self, clock: Clock) -> None:
        known = Cluster()
        super().__init__(None, Handle(known, ClusterFile(known, [])))
        self.clock = clock

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        self.clock.pass_seconds(1)
        return None

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        self.clock.pass_seconds(1)
        return 0


def test_no_node_is_asked_about_when_time_is_up() -> None:
    clock = Clock()
    plugin, view = Slow(clock), cluster().view(None)
    for ask in (plugin.filter, plugin.score):
        started = clock()
        with pytest.raises(NoTimeLeftError):
            ask(CycleState(Pod(), deadline=started + 1.5, clock=clock), Pod(), view)
        assert clock() == started + 2


@pytest.mark.parametrize(
    ("answer", "says"),
    [("no", "str, not a Status or None"), (Status(Code.SUCCESS), "Status(Code.SUCCESS): return None")],
)
def test_an_answer_about_a_node_that_is_no_refusal_is_an_error(
    answer: object, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FewPods, "filter_node", lambda *_: answer)
    known = cluster()
    plugin = FewPods(None, Handle(known, ClusterFile(known, [])))
    with pytest.raises(PluginError, match=re.escape(f"filter_node returned {says}")):
        plugin.filter(CycleState(Pod()), Pod(), known.view(None))

from typing import Any, ClassVar

import numpy as np
import pytest

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework import recording
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.guard import CycleError
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter, PreFilter, Score
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.profile import Profile
from extender_service.framework.status import SKIP, Status
from extender_service.kube.types.core import Node, ObjectMeta, Pod
from extender_service.scheduling.asked_nodes import AllNodes
from extender_service.scheduling.decision import decide
from extender_service.scheduling.question import Question


class Recorder:
    """Keeps what it is told, without the seconds."""

    def __init__(self) -> None:
        self.points: list[tuple[str, str]] = []
        self.plugins: list[tuple[str, str, str]] = []

    def record_point(self, profile: str, point: str, status: str, seconds: float) -> None:
        assert profile == "default-scheduler"
        assert seconds >= 0
        self.points.append((point, status))

    def record_plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        assert seconds >= 0
        self.plugins.append((plugin, point, status))


class Plugin(PreFilter, Filter, Score):
    name: ClassVar[str] = "Plugin"
    answer: Status | None = None
    error: Exception | None = None

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | None:
        return self.answer

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> None:
        if self.error is not None:
            raise self.error

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> Any:
        return np.zeros(len(nodes), np.int64)


def decided(**attributes: object) -> Recorder:
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.apply_node(Node(ObjectMeta(name=name)))
    plugin = Plugin(None, Handle(cluster, ClusterFile(cluster, [])))
    for name, value in attributes.items():
        setattr(plugin, name, value)
    profile = Profile("default-scheduler", {point: [(plugin, 1)] for point in ("preFilter", "filter", "score")})
    profile.recorder = recorder = Recorder()
    view = cluster.view(None)
    try:
        decide(profile, Question(Pod(), AllNodes(view)))
    except CycleError:
        recorder.points.append(("cycle", "Error"))
    return recorder


def test_every_extension_point_of_a_decision_is_told() -> None:
    points = ("PreFilter", "Filter", "PreScore", "Score")
    assert decided().points == [(point, "Success") for point in points]


def test_a_point_that_fails_is_told_as_an_error() -> None:
    assert decided(error=PluginError("broken")).points[1:] == [("Filter", "Error"), ("cycle", "Error")]


@pytest.fixture
def everything_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "SAMPLED", 1.1)


@pytest.mark.usefixtures("everything_sampled")
def test_the_plugins_of_a_sampled_decision_are_told_one_by_one() -> None:
    assert decided().plugins == [
        ("Plugin", "PreFilter", "Success"),
        ("Plugin", "Filter", "Success"),
        ("Plugin", "Score", "Success"),
    ]


@pytest.mark.usefixtures("everything_sampled")
def test_a_plugin_is_told_with_the_status_that_it_gave() -> None:
    assert decided(answer=SKIP).plugins[0] == ("Plugin", "PreFilter", "Skip")
    assert decided(error=RuntimeError("broken")).plugins[1] == ("Plugin", "Filter", "Error")


def test_a_tenth_of_all_decisions_is_sampled() -> None:
    sampled = sum(bool(decided().plugins) for _ in range(1000))
    assert 50 < sampled < 170

from collections.abc import Callable
from random import Random
from typing import Any, ClassVar

import numpy as np

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.guard import CycleError
from extender_service.framework.handle import Handle
from extender_service.framework.interface import (
    Filter,
    FilterAgain,
    PostFilter,
    PostFilterResult,
    PreEnqueue,
    PreFilter,
    Score,
)
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.profile import Profile
from extender_service.framework.runtime import run_post_filter, run_pre_enqueue
from extender_service.framework.status import SKIP, Status, unschedulable
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.types.core import Node, ObjectMeta, Pod
from extender_service.scheduling.asked_nodes import AllNodes
from extender_service.scheduling.decision import decide
from extender_service.scheduling.question import Question
from tests.support.clock import Clock


class Recorder:
    """Keeps what it is told, and the seconds of Filter apart."""

    def __init__(self) -> None:
        self.points: list[tuple[str, str]] = []
        self.plugins: list[tuple[str, str, str]] = []
        self.filter_seconds: list[float] = []

    def record_point(self, profile: str, point: str, status: str, seconds: float) -> None:
        assert profile == "default-scheduler"
        self._note_seconds(point, seconds)
        self.points.append((point, status))

    def record_permit_wait(self, status: str, seconds: float) -> None:
        raise AssertionError("nothing waits here")

    def record_plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        self._note_seconds(point, seconds)
        self.plugins.append((plugin, point, status))

    def _note_seconds(self, point: str, seconds: float) -> None:
        if point == "Filter":
            self.filter_seconds.append(seconds)
        else:
            assert seconds == 0


class Sampled(Random):
    """Draws that the plugins of every decision are timed."""

    def random(self) -> float:
        return 0.0


class Plugin(PreFilter, Filter, Score):
    name: ClassVar[str] = "Plugin"
    answer: Status | None = None
    error: Exception | None = None
    takes: Callable[[], None] = staticmethod(lambda: None)

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | None:
        return self.answer

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> None:
        self.takes()
        if self.error is not None:
            raise self.error

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> Any:
        return np.zeros(len(nodes), np.int64)


def decided(random: Random, clock: Clock | None = None, **attributes: object) -> Recorder:
    """What is recorded of a decision by a plugin with these attributes."""
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.apply_node(Node(ObjectMeta(name=name)))
    plugin = Plugin(None, Handle(cluster, ClusterFile(cluster, [])))
    for name, value in attributes.items():
        setattr(plugin, name, value)
    points = {point: [(plugin, 1)] for point in ("preFilter", "filter", "score")}
    profile = Profile("default-scheduler", points, clock=clock or Clock(), random=random)
    profile.recorder = recorder = Recorder()
    view = cluster.view(None)
    try:
        decide(profile, Question(Pod(), AllNodes(view)))
    except CycleError:
        recorder.points.append(("cycle", "Error"))
    return recorder


def test_every_extension_point_of_a_decision_is_told() -> None:
    points = ("PreFilter", "Filter", "PreScore", "Score")
    assert decided(Sampled()).points == [(point, "Success") for point in points]


class Gate(PreEnqueue):
    """Lets pods named "a" in."""

    name: ClassVar[str] = "Gate"

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return None if pod.metadata.name == "a" else unschedulable("gated")


def test_pre_enqueue_is_told_with_its_plugins_in_a_sample() -> None:
    cluster = Cluster()
    gate = Gate(None, Handle(cluster, ClusterFile(cluster, [])))
    profile = Profile("default-scheduler", {"preEnqueue": [(gate, 0)]}, clock=Clock(), random=Sampled())
    profile.recorder = recorder = Recorder()
    for name in ("a", "b"):
        run_pre_enqueue(profile, Pod(ObjectMeta(name=name)))
    assert recorder.points == [("PreEnqueue", "Success"), ("PreEnqueue", "Unschedulable")]
    assert recorder.plugins == [("Gate", "PreEnqueue", "Success"), ("Gate", "PreEnqueue", "Unschedulable")]


def test_a_point_that_fails_is_told_as_an_error() -> None:
    assert decided(Sampled(), error=PluginError("broken")).points[1:] == [("Filter", "Error"), ("cycle", "Error")]


def test_filter_is_not_told_where_pre_filter_has_rejected_the_pod() -> None:
    recorder = decided(Sampled(), answer=unschedulable("no"))
    assert recorder.points == [("PreFilter", "Unschedulable")]
    assert recorder.plugins == [("Plugin", "PreFilter", "Unschedulable")]


def test_the_plugins_of_a_sampled_decision_are_told_one_by_one() -> None:
    assert decided(Sampled()).plugins == [
        ("Plugin", "PreFilter", "Success"),
        ("Plugin", "Filter", "Success"),
        ("Plugin", "Score", "Success"),
    ]


def test_a_plugin_is_told_with_the_status_that_it_gave() -> None:
    assert decided(Sampled(), answer=SKIP).plugins[0] == ("Plugin", "PreFilter", "Skip")
    assert decided(Sampled(), error=RuntimeError("broken")).plugins[1] == ("Plugin", "Filter", "Error")


class MakesNoRoom(PostFilter):
    name: ClassVar[str] = "MakesNoRoom"

    def post_filter(
        self, state: CycleState, pod: Pod, verdicts: Verdicts, filter_again: FilterAgain
    ) -> PostFilterResult:
        return PostFilterResult(unschedulable("no room"))


def test_a_post_filter_is_told_with_the_status_of_its_result() -> None:
    cluster = Cluster()
    plugin = MakesNoRoom(None, Handle(cluster, ClusterFile(cluster, [])))
    profile = Profile("default-scheduler", {"postFilter": [(plugin, 1)]}, clock=Clock(), random=Sampled())
    profile.recorder = recorder = Recorder()
    view = cluster.view(None)
    run_post_filter(profile, profile.new_state(Pod()), Pod(), Verdicts(view, view.exists))
    assert recorder.plugins == [("MakesNoRoom", "PostFilter", "Unschedulable")]
    assert recorder.points == [("PostFilter", "Unschedulable")]


def test_a_tenth_of_all_decisions_is_sampled() -> None:
    random = Random(1)
    sampled = sum(bool(decided(random).plugins) for _ in range(1000))
    assert 50 < sampled < 170


def test_durations_are_those_of_the_profiles_clock() -> None:
    clock = Clock()
    recorder = decided(Sampled(), clock, takes=lambda: clock.pass_seconds(2))
    assert recorder.filter_seconds == [2.0, 2.0]  # of the plugin, and of all plugins

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import ClassVar

import numpy as np
import pytest

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.state.node_info import NodeInfo
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.guard import CycleError, OutOfTimeError
from extender_service.framework.handle import Handle
from extender_service.framework.per_node import FilterNode, ScoreNode
from extender_service.framework.plugin_errors import NoTimeLeftError, PluginError
from extender_service.framework.runtime import scores_of
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


def few_pods(plugin: type[FewPods] = FewPods) -> FewPods:
    known = cluster()
    return plugin(None, Handle(known, ClusterFile(known, [])))


def statuses(plugin: FewPods, *names: str) -> list[Status]:
    """What the plugin says of each of these nodes."""
    known = cluster()
    rejections = plugin.filter(CycleState(Pod()), Pod(), known.view(known.nodes.rows_named(names)))
    assert rejections is not None
    return [rejections.status_of(key) for key in rejections.keys.tolist()]


def raising(error: BaseException) -> Callable[..., None]:
    def raise_it(*_: object) -> None:
        raise error

    return raise_it


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
def test_an_answer_about_a_node_that_is_no_refusal_is_an_error_of_that_node(
    answer: object, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FewPods, "filter_node", lambda *_: answer)
    (error,) = statuses(few_pods(), "free")
    assert error.code == Code.ERROR
    assert error.message.startswith(f"filter_node returned {says}")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("driver"), "KeyError: 'driver'"),
        (PluginError("no driver"), "no driver"),
        # What the task of a plugin ended with that it runs in the background.
        (asyncio.CancelledError("stopped"), "CancelledError: stopped"),
    ],
)
def test_an_exception_about_a_node_is_an_error_of_that_node(
    error: BaseException, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FewPods, "filter_node", raising(error))
    assert statuses(few_pods(), "free", "busy") == 2 * [Status(Code.ERROR, (text,))]


@pytest.mark.parametrize("error", [NoTimeLeftError(), OutOfTimeError("in a plugin that this one runs")])
def test_no_other_node_is_asked_about_once_a_plugin_gives_up(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FewPods, "filter_node", raising(error))
    with pytest.raises(type(error)):
        statuses(few_pods(), "free")


def test_a_kind_of_exception_is_logged_once_however_many_nodes_it_is_raised_about(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = few_pods()
    for error in (KeyError("driver"), KeyError("disk"), PluginError("no driver"), ValueError("no number")):
        monkeypatch.setattr(FewPods, "filter_node", raising(error))
        statuses(plugin, "free", "busy")
    logged = [(record.levelno, vars(record)["plugin"], vars(record)["kind"]) for record in caplog.records]
    assert logged == [(logging.ERROR, "FewPods", "KeyError"), (logging.ERROR, "FewPods", "ValueError")]


class Lookups(FewPods):
    """Looks up a label that no node has: of one node here, of the others there."""

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if node.name == "free":
            return self._label(node, "disk")
        return self._label(node, "driver")

    def _label(self, node: NodeInfo, key: str) -> Status | None:
        return unschedulable(node.labels[key])


def test_each_place_where_a_plugin_fails_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    plugin = few_pods(Lookups)
    for _ in range(3):
        statuses(plugin, "busy", "plain", "free")
    assert [str(vars(record)["exc_info"][1]) for record in caplog.records] == ["'driver'", "'disk'"]


def test_an_exception_that_is_raised_for_each_node_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    future: Future[None] = Future()
    future.set_exception(KeyError("driver"))
    monkeypatch.setattr(FewPods, "filter_node", lambda *_: future.result())
    plugin = few_pods()
    for _ in range(50):
        statuses(plugin, "free", "busy")
    assert len(caplog.records) == 1


def test_a_plugin_that_fails_at_ever_new_places_does_not_fill_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = few_pods()
    for number in range(150):
        code = compile("raise KeyError('driver')", f"template {number}", "exec")
        monkeypatch.setattr(FewPods, "filter_node", lambda *_, code=code: exec(code))
        statuses(plugin, "free")
    assert len(caplog.records) == 100


@pytest.mark.parametrize(("answer", "says"), [(0.93, "float"), (True, "bool"), (None, "NoneType")])
def test_a_score_that_is_no_whole_number_is_an_error_of_the_plugin(
    answer: object, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FewPods, "score_node", lambda *_: answer)
    with pytest.raises(CycleError) as raised:
        scores_of([few_pods()], CycleState(Pod()), Pod(), cluster().view(None))
    failed = 'running Score plugins: plugin "FewPods" failed with'
    assert str(raised.value) == f"{failed}: score_node returned {says}, not a whole number"

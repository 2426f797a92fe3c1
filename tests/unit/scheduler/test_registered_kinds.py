"""Pods that wait for an object of a kind that only a plugin knows: its changes wake them, and hints see the object."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import numpy as np
import pytest

from extender_service.caches import caches
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.command.setup import Setup
from extender_service.config.release import NEWEST_MINOR, OLDEST_MINOR
from extender_service.config.rules import rules_of
from extender_service.framework.cluster_event import VOLUME_ATTACHMENT, ActionType, ClusterEvent, QueueingHint
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.interface import Filter, Permit, Plugin, PreBind, PreEnqueue, PreFilter, Reserve
from extender_service.framework.queueing_hints import queueing_hints
from extender_service.framework.status import Rejections, Status, unschedulable
from extender_service.kube.resources.any_kind import AnyObject, any_kind
from extender_service.kube.types.core import Pod
from extender_service.plugins.queue_sort import PrioritySort
from extender_service.scheduler.metrics.event_timing import EventTiming
from extender_service.scheduler.registered_kinds import RegisteredKind, registered_kinds
from tests.support.clusters.scheduler_world import SchedulerWorld, turns
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod
from tests.support.stub_plugins import make_handle, stub_cluster

WIDGETS = "widgets.v1.example.com"
POINTS = ("preEnqueue", "preFilter", "filter", "reserve", "permit", "preBind")


class Licensed(PreEnqueue, PreFilter, Filter, Reserve, Permit, PreBind):
    """Rejects at one point, until `is_free`. Its hint wants widgets that are red now, and keeps what it is asked."""

    name = "Licensed"
    retry_on = (ClusterEvent(WIDGETS, ActionType.ALL),)

    def __init__(self, point: str) -> None:
        super().__init__(None, make_handle(stub_cluster()))
        self.point = point
        self.is_free = False
        self.asked: list[tuple[str, Any, Any]] = []

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: Any, new: Any) -> QueueingHint:
        self.asked.append((event.label, old, new))
        return QueueingHint.queue_if(new is not None and new["spec"]["color"] == "red")

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return self._answer("preEnqueue")

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | Collection[str] | None:
        return self._answer("preFilter")

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        status = self._answer("filter")
        return None if status is None else Rejections.where(np.ones(len(nodes), np.bool_), status)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return self._answer("reserve")

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pass

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        return self._answer("permit"), 0.0

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return self._answer("preBind")

    def _answer(self, point: str) -> Status | None:
        return None if self.is_free or point != self.point else unschedulable("no license")


def widget(name: str, version: str, color: str) -> AnyObject:
    shown = {"metadata": {"name": name, "resourceVersion": version}, "spec": {"color": color}}
    frame = {"type": "ADDED", "object": shown}
    found = any_kind(WIDGETS, keeps_json=True).frame_decoder.decode(msgspec.json.encode(frame)).object
    assert isinstance(found, AnyObject)
    return found


def as_json(name: str, version: str, color: str) -> Mapping[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": version}, "spec": {"color": color}}


async def waiting(point: str, *, uses_hints: bool) -> tuple[SchedulerWorld, Licensed, RegisteredKind]:
    """A pod that the plugin rejected a minute ago."""
    plugin = Licensed(point)
    world = SchedulerWorld(make_node("a"), plugins={point: [(plugin, 0)]}, uses_hints=uses_hints)
    widgets = RegisteredKind(WIDGETS, world.queue, world.cluster.rules, keeps_json=uses_hints)
    world.create(make_pod("p"))
    world.attempt_all()
    await turns()
    world.clock.pass_seconds(60)
    assert world.where() == {"gated" if point == "preEnqueue" else "unschedulable": 1}
    return world, plugin, widgets


@pytest.mark.parametrize("uses_hints", [False, True])
@pytest.mark.parametrize("point", POINTS)
@in_event_loop
async def test_a_change_of_the_kind_wakes_the_pods_that_the_plugin_rejected(point: str, uses_hints: bool) -> None:
    world, plugin, widgets = await waiting(point, uses_hints=uses_hints)
    plugin.is_free = True
    widgets.apply(widget("w", "1", "red"))
    assert world.where() == {"active": 1}
    world.attempt_all()
    await turns()
    assert world.api.named("bind") == ["p"]
    await world.scheduler.close()


@pytest.mark.parametrize("point", POINTS)
@in_event_loop
async def test_a_hint_that_says_no_lets_the_pod_wait(point: str) -> None:
    world, plugin, widgets = await waiting(point, uses_hints=True)
    plugin.is_free = True
    widgets.apply(widget("w", "1", "blue"))
    assert "active" not in world.where()
    widgets.apply(widget("w", "2", "red"))
    assert world.where() == {"active": 1}
    await world.scheduler.close()


@in_event_loop
async def test_hints_see_the_object_before_and_after_each_change() -> None:
    world, plugin, widgets = await waiting("filter", uses_hints=True)
    widgets.apply(widget("w", "1", "blue"))
    widgets.apply(widget("w", "1", "blue"))  # a list shows it again
    widgets.apply(widget("w", "2", "green"))
    assert list(widgets.keys()) == [("", "w")]
    widgets.remove(("", "w"))
    widgets.remove(("", "w"))
    assert list(widgets.keys()) == []
    blue, green = as_json("w", "1", "blue"), as_json("w", "2", "green")
    assert plugin.asked == [("WidgetsAdd", None, blue), ("WidgetsUpdate", blue, green), ("WidgetsDelete", green, None)]
    await world.scheduler.close()


def labels_of_changes(world: SchedulerWorld) -> list[str]:
    """Add, update and remove an object; returns the names under which that is timed."""
    labels: list[str] = []
    timing = EventTiming(world.clock, lambda label, _: labels.append(label))
    widgets = RegisteredKind(WIDGETS, world.queue, world.cluster.rules, timing, keeps_json=False)
    widgets.apply(widget("w", "1", "blue"))
    widgets.apply(widget("w", "2", "red"))
    widgets.remove(("", "w"))
    return labels


@pytest.mark.parametrize(("minor", "called"), [(31, "Widgets"), (32, WIDGETS), (37, WIDGETS)])
@in_event_loop
async def test_changes_are_timed_under_kube_schedulers_names(minor: int, called: str) -> None:
    plugins = {"filter": [(Licensed("filter"), 0)]}
    world = SchedulerWorld(make_node("a"), plugins=plugins, rules=rules_of(minor))
    assert labels_of_changes(world) == [f"{called}Add", f"{called}Update", f"{called}Delete"]


@in_event_loop
async def test_changes_that_no_plugin_registered_are_not_timed() -> None:
    plugin = Licensed("filter")
    plugin.retry_on = (ClusterEvent(WIDGETS, ActionType.ADD),)
    world = SchedulerWorld(make_node("a"), plugins={"filter": [(plugin, 0)]}, rules=rules_of(37))
    assert labels_of_changes(world) == [f"{WIDGETS}Add"]


@in_event_loop
async def test_an_event_while_the_pod_is_in_flight_counts_when_it_comes_back() -> None:
    plugin = Licensed("permit")
    world = SchedulerWorld(make_node("a"), plugins={"permit": [(plugin, 0)]}, uses_hints=True)
    widgets = RegisteredKind(WIDGETS, world.queue, world.cluster.rules, keeps_json=True)
    world.create(make_pod("p"))
    info = world.queue.pop()
    assert info is not None
    widgets.apply(widget("w", "1", "red"))
    await world.scheduler.schedule_one(info)
    assert world.where() == {"backoff": 1}
    await world.scheduler.close()


@in_event_loop
async def test_the_json_of_a_kind_is_bounded_and_hints_then_get_names() -> None:
    world, plugin, _ = await waiting("filter", uses_hints=True)
    widgets = RegisteredKind(WIDGETS, world.queue, world.cluster.rules, keeps_json=True, most_bytes=100_000)
    for number in range(1000):
        widgets.apply(widget(f"w{number}", "1", "blue"))
    [size] = [size for size in caches() if size.name == "objects of kinds that plugins registered"]
    assert size.size_bytes <= 100_000 + 64 * 2**20
    assert 0 < size.entries < 1000
    assert len(list(widgets.keys())) == 1000
    plugin.asked.clear()
    widgets.apply(widget("w0", "2", "blue"))
    assert plugin.asked == [
        ("WidgetsUpdate", {"metadata": {"namespace": "", "name": "w0"}}, as_json("w0", "2", "blue"))
    ]
    await world.scheduler.close()


@in_event_loop
async def test_an_object_that_cannot_be_decoded_wakes_pods_all_the_same() -> None:
    world, plugin, widgets = await waiting("filter", uses_hints=True)
    widgets.apply(msgspec.structs.replace(widget("w", "1", "red"), whole_json=b"[" * 5000))
    assert plugin.asked == [("WidgetsAdd", None, {"metadata": {"namespace": "", "name": "w"}})]
    assert world.where() == {"active": 1}  # the hint failed
    await world.scheduler.close()


def test_kinds_that_the_scheduler_knows_are_not_watched_again() -> None:
    handle = make_handle(stub_cluster())

    class Other(Plugin):
        name = "Other"
        retry_on = (
            ClusterEvent("services.v1.", ActionType.ADD),
            ClusterEvent(WIDGETS, ActionType.ADD),
            ClusterEvent(VOLUME_ATTACHMENT, ActionType.DELETE),
        )

    hints = queueing_hints([Licensed("filter"), Other(None, handle), PrioritySort(None, handle)], rules_of(32))
    assert registered_kinds([hints, {}]) == {WIDGETS: {"Licensed", "Other"}, "services.v1.": {"Other"}}


@pytest.mark.parametrize("minor", range(OLDEST_MINOR, NEWEST_MINOR + 1))
def test_plugins_in_tree_register_no_kind_of_their_own(minor: int) -> None:
    setup = Setup(None, [], rules=rules_of(minor))
    profiles = setup.profiles(make_handle(Cluster(setup.rules)))
    hints = [queueing_hints(profile.rejecting, setup.rules, with_extenders=True) for profile in profiles.values()]
    assert registered_kinds(hints) == {}

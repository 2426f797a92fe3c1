from typing import ClassVar

import msgspec
import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from extender_service.cluster.view.node_view import NodeView
from extender_service.config.rules import rules_of
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.interface import Filter, FilterAgain, Permit, Plugin, PostFilter, PostFilterResult
from extender_service.framework.status import Rejections, Status, unschedulable
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.api_errors import ApiError, ApiStatus
from extender_service.kube.types.core import Pod
from extender_service.plugins.default_preemption import DefaultPreemption, DefaultPreemptionArgs
from extender_service.queue.queued_pod import QueuedPodInfo
from extender_service.scheduler.metrics.prometheus import SchedulerMetrics, SchedulerState
from tests.support.clock import Clock
from tests.support.clusters.scheduler_world import SchedulerWorld, whole
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod
from tests.support.storage_objects import with_claims
from tests.support.stub_plugins import make_handle, stub_cluster


class Counted:
    def __init__(self, minor: int = 31) -> None:
        self.registry = CollectorRegistry()
        self.clock = Clock()
        self.metrics = SchedulerMetrics(self.registry, self.clock, rules_of(minor))

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


def info(name: str, attempts: int = 1) -> QueuedPodInfo:
    pod = whole(make_pod(name))
    return QueuedPodInfo(pod, 1000.0, key=f"default/{name}", attempts=attempts, first_attempt_at=1000.0)


def test_an_attempt_that_ends_well_counts_with_its_binding() -> None:
    counted = Counted()
    pod = info("a", attempts=3)
    counted.metrics.begun(pod)
    counted.clock.pass_seconds(0.5)
    counted.metrics.decided(pod)
    counted.clock.pass_seconds(1.5)
    counted.metrics.scheduled(pod)
    labels = {"result": "scheduled", "profile": "default-scheduler"}
    assert counted.value("scheduler_schedule_attempts_total", **labels) == 1
    assert counted.value("scheduler_scheduling_attempt_duration_seconds_sum", **labels) == 2.0
    assert counted.value("scheduler_scheduling_algorithm_duration_seconds_sum") == 0.5
    assert counted.value("scheduler_pod_scheduling_sli_duration_seconds_sum", attempts="3") == 2.0
    assert counted.value("scheduler_pod_scheduling_attempts_sum") == 3
    assert counted.value("scheduler_preemption_attempts_total") == 0


def test_failures_count_by_result() -> None:
    counted = Counted()
    for is_unschedulable in (True, True, False):
        pod = info("a")
        counted.metrics.begun(pod)
        counted.metrics.decided(pod)
        counted.metrics.failed(pod, is_unschedulable=is_unschedulable)
    counted.metrics.preempted(3)
    profile = "default-scheduler"
    assert counted.value("scheduler_schedule_attempts_total", result="unschedulable", profile=profile) == 2
    assert counted.value("scheduler_schedule_attempts_total", result="error", profile=profile) == 1
    assert counted.value("scheduler_preemption_victims_sum") == 3


def test_attempts_of_a_pod_that_overlap_are_timed_apart() -> None:
    counted = Counted()
    first, second = info("a"), info("a")
    counted.metrics.begun(first)
    counted.clock.pass_seconds(1)
    counted.metrics.begun(second)
    counted.clock.pass_seconds(2)
    counted.metrics.failed(first, is_unschedulable=False)
    counted.metrics.decided(second)
    counted.metrics.failed(second, is_unschedulable=False)
    labels = {"result": "error", "profile": "default-scheduler"}
    assert counted.value("scheduler_scheduling_attempt_duration_seconds_sum", **labels) == 3 + 2
    assert counted.value("scheduler_scheduling_algorithm_duration_seconds_sum") == 2


def test_many_attempts_share_a_label() -> None:
    counted = Counted()
    for attempts in (14, 15, 16):
        pod = info("a", attempts)
        counted.metrics.begun(pod)
        counted.metrics.scheduled(pod)
    assert counted.value("scheduler_pod_scheduling_sli_duration_seconds_count", attempts="14") == 1
    assert counted.value("scheduler_pod_scheduling_sli_duration_seconds_count", attempts="15+") == 2


def test_the_queue_counts_what_comes_and_who_rejects() -> None:
    counted = Counted()
    counted.metrics.incoming("active", "PodAdd")
    counted.metrics.rejected("NodeAffinity", "default-scheduler", 1)
    counted.metrics.rejected("NodeAffinity", "default-scheduler", 1)
    counted.metrics.rejected("NodeAffinity", "default-scheduler", -1)
    assert counted.value("scheduler_queue_incoming_pods_total", queue="active", event="PodAdd") == 1
    assert counted.value("scheduler_unschedulable_pods", plugin="NodeAffinity", profile="default-scheduler") == 1


def test_a_scrape_shows_who_waits_and_who_leads() -> None:
    registry = CollectorRegistry()
    registry.register(SchedulerState(lambda: {"active": 2, "gated": 1}, dict, lambda: 3, lambda: True, lambda: 4))
    assert registry.get_sample_value("scheduler_pending_pods", {"queue": "active"}) == 2
    assert registry.get_sample_value("scheduler_goroutines", {"operation": "binding"}) == 3
    assert registry.get_sample_value("leader_election_master_status", {"name": "kube-scheduler"}) == 1
    assert registry.get_sample_value("leader_election_slowpath_total", {"name": "kube-scheduler"}) == 4
    types = {family.name: family.type for family in registry.collect()}
    assert types["leader_election_slowpath"] == "counter"


@in_event_loop
async def test_the_scheduler_counts_its_attempts() -> None:
    counted = Counted()
    world = SchedulerWorld(make_node("a", {"cpu": "1", "pods": "10"}), metrics=counted.metrics)
    world.create(make_pod("fits", requests={"cpu": "1"}))
    world.create(make_pod("does-not", requests={"cpu": "9"}))
    world.attempt_all()
    await world.scheduler.close()
    profile = "default-scheduler"
    assert counted.value("scheduler_schedule_attempts_total", result="scheduled", profile=profile) == 1
    assert counted.value("scheduler_schedule_attempts_total", result="unschedulable", profile=profile) == 1
    assert counted.metrics._begun_at == {}


def test_events_and_hints_are_timed() -> None:
    counted = Counted(32)
    counted.metrics.event_timing.handled("NodeAdd", 0.5)
    counted.metrics.event_timing.handled("NodeAdd", 0.25)
    counted.metrics.hint_timing.asked("NodeAffinity", "NodeAdd", "QueueSkip", 0.125)
    assert counted.value("scheduler_event_handling_duration_seconds_sum", event="NodeAdd") == 0.75
    labels = {"plugin": "NodeAffinity", "event": "NodeAdd", "hint": "QueueSkip"}
    assert counted.value("scheduler_queueing_hint_execution_duration_seconds_sum", **labels) == 0.125


def test_without_hints_there_is_no_metric_of_hints() -> None:
    names = {family.name for family in Counted().registry.collect()}
    assert "scheduler_event_handling_duration_seconds" in names
    assert "scheduler_queueing_hint_execution_duration_seconds" not in names


def test_pods_are_counted_as_entities_of_the_queue_from_1_37_on() -> None:
    for minor, count in ((36, None), (37, 1)):
        counted = Counted(minor)
        counted.metrics.incoming("active", "PodAdd")
        labels = {"queue": "active", "event": "PodAdd", "type": "pod"}
        assert counted.value("scheduler_queue_incoming_entities_total", **labels) == count
        registry = CollectorRegistry()
        registry.register(SchedulerState(lambda: {"active": 1}, dict, lambda: 0, lambda: True, None, rules_of(minor)))
        assert registry.get_sample_value("scheduler_queued_entities", {"queue": "active", "type": "pod"}) == count


@pytest.mark.parametrize(("minor", "kept"), [(31, None), (32, 2), (37, 2)])
def test_events_that_are_kept_for_pods_in_flight_are_counted_from_1_32_on(minor: int, kept: int | None) -> None:
    world = SchedulerWorld(make_node("a"), rules=rules_of(minor))
    registry = CollectorRegistry()
    registry.register(
        SchedulerState(dict, world.queue.in_flight_counts, lambda: 0, lambda: True, None, rules_of(minor))
    )
    pod = make_pod("p")
    world.create(pod)
    info = world.queue.pop()
    assert info is not None
    world.node_watch.apply(make_node("b"))
    world.node_watch.apply(make_node("c"))
    assert registry.get_sample_value("scheduler_inflight_events", {"event": "NodeAdd"}) == kept
    assert registry.get_sample_value("scheduler_inflight_events", {"event": "PodPopped"}) == (kept and 1)
    world.queue.done(info.pod.metadata.uid)
    assert registry.get_sample_value("scheduler_inflight_events", {"event": "NodeAdd"}) is None


@pytest.mark.parametrize(("minor", "count"), [(35, None), (36, 1)])
def test_pods_that_waited_too_long_for_an_event_are_counted_from_1_36_on(minor: int, count: int | None) -> None:
    counted = Counted(minor)
    for was_flushed in (False, True):
        pod = info("a")
        pod.was_flushed = was_flushed
        counted.metrics.begun(pod)
        counted.metrics.scheduled(pod)
    assert counted.value("scheduler_pod_scheduled_after_flush_total") == count


@pytest.mark.parametrize(("minor", "succeeded", "timed"), [(32, None, None), (33, 1, 1), (36, 1, 1), (37, 1, None)])
@in_event_loop
async def test_preemption_in_the_background_is_counted_from_1_33_on_and_timed_until_1_36(
    minor: int, succeeded: int | None, timed: int | None
) -> None:
    counted = Counted(minor)
    world = SchedulerWorld(make_node("a"), rules=rules_of(minor), metrics=counted.metrics)
    world.create(make_pod("victim", "a", requests={"cpu": "4"}))
    pod = make_pod("p", requests={"cpu": "4"})
    world.create(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=1)))
    world.attempt()
    await world.scheduler.close()
    assert counted.value("scheduler_preemption_victims_sum") == 1
    name = "scheduler_preemption_goroutines_execution_total"
    assert counted.value(name, result="success") == succeeded
    assert counted.value("scheduler_preemption_goroutines_duration_seconds_count", result="success") == timed
    assert counted.value(name, result="error") is None


@pytest.mark.parametrize(("minor", "count"), [(35, 1), (36, 0), (37, 1)])
@in_event_loop
async def test_a_preemption_whose_victims_are_all_going_already_is_not_counted_in_1_36(minor: int, count: int) -> None:
    counted = Counted(minor)
    world = SchedulerWorld(make_node("a"), rules=rules_of(minor), metrics=counted.metrics)
    going, pod = make_pod("going", "a", requests={"cpu": "4"}), make_pod("p", requests={"cpu": "4"})
    metadata = msgspec.structs.replace(going.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    world.create(msgspec.structs.replace(going, metadata=metadata))
    world.create(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=1)))
    world.attempt()
    await world.scheduler.close()
    assert counted.value("scheduler_preemption_victims_count") == count


@pytest.mark.parametrize(("minor", "count"), [(31, 0), (35, 0), (36, 1), (37, 1)])
@in_event_loop
async def test_a_preemption_in_the_foreground_that_fails_is_counted_from_1_36_on(minor: int, count: int) -> None:
    counted, rules = Counted(minor), rules_of(minor, {"SchedulerAsyncPreemption": False})
    world = SchedulerWorld(make_node("a"), rules=rules, metrics=counted.metrics)
    world.api.errors["delete", "victim"] = [ApiError(ApiStatus(403, "Forbidden", "no"))]
    world.create(make_pod("victim", "a", requests={"cpu": "4"}))
    pod = make_pod("p", requests={"cpu": "4"})
    world.create(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=1)))
    world.attempt()
    await world.scheduler.close()
    assert counted.value("scheduler_preemption_victims_count") == count


@in_event_loop
async def test_plugins_of_an_attempt_are_counted() -> None:
    counted = Counted()
    world = SchedulerWorld(make_node("a"), make_node("b"), metrics=counted.metrics)
    world.create(make_pod("p"))
    world.attempt_all()
    labels = {"plugin": "NodeResourcesFit", "profile": "default-scheduler"}
    name = "scheduler_plugin_evaluation_total"
    assert counted.value(name, extension_point="PreFilter", **labels) == 1
    assert counted.value(name, extension_point="Filter", **labels) == 2
    assert counted.value(name, extension_point="Score", **labels) == 2
    await world.scheduler.close()


@in_event_loop
async def test_a_pod_whose_nominated_node_does_not_fit_counts_once_in_pre_filter() -> None:
    counted = Counted()
    world = SchedulerWorld(make_node("a"), make_node("b"), metrics=counted.metrics)
    world.create(make_pod("victim", "a", requests={"cpu": "4"}), make_pod("p", requests={"cpu": "1"}, nominated="a"))
    world.attempt_all()
    labels = {"plugin": "NodeResourcesFit", "profile": "default-scheduler"}
    name = "scheduler_plugin_evaluation_total"
    assert counted.value(name, extension_point="PreFilter", **labels) == 1
    assert counted.value(name, extension_point="Filter", **labels) == 1 + 2
    await world.scheduler.close()


class Refuses(Filter, PostFilter, Permit):
    """Rejects pods in Filter or in Permit, or in Filter and then fails in PostFilter."""

    name: ClassVar[str] = "Refuses"

    def __init__(self, point: str) -> None:
        super().__init__(None, make_handle(stub_cluster()))
        self.point = point

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        rejected = np.full(len(nodes), self.point != "Permit")
        return Rejections.where(rejected, unschedulable("no"))

    def post_filter(
        self, state: CycleState, pod: Pod, verdicts: Verdicts, filter_again: FilterAgain
    ) -> PostFilterResult:
        if self.point == "PostFilter":
            raise OSError("no answer")
        return PostFilterResult(unschedulable("no room"))

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        return unschedulable("not now"), 0.0


@pytest.mark.parametrize(
    ("point", "preempts", "attempts"),
    [("Permit", True, 0), ("Filter", True, 1), ("PostFilter", True, 0), ("Filter", False, 0)],
)
@in_event_loop
async def test_an_attempt_to_preempt_is_one_in_which_default_preemption_was_called(
    point: str, preempts: bool, attempts: int
) -> None:
    counted = Counted()
    plugins: dict[str, list[tuple[Plugin, int]]] = {
        each: [(Refuses(point), 0)] for each in ("filter", "postFilter", "permit")
    }
    preemption = DefaultPreemption(DefaultPreemptionArgs(), SchedulerWorld().handle)
    if preempts:
        plugins["postFilter"].append((preemption, 0))
    world = SchedulerWorld(make_node("a"), plugins=plugins, metrics=counted.metrics)
    preemption.handle = world.handle
    world.create(make_pod("p"))
    world.attempt_all()
    await world.scheduler.close()
    assert counted.value("scheduler_preemption_attempts_total") == attempts


@pytest.mark.parametrize(("minor", "attempts"), [(31, 1), (33, 1), (34, 0), (37, 0)])
@in_event_loop
async def test_from_1_34_on_a_pod_without_its_claim_is_no_attempt_to_preempt(minor: int, attempts: int) -> None:
    counted = Counted(minor)
    world = SchedulerWorld(make_node("a"), metrics=counted.metrics, rules=rules_of(minor))
    world.create(with_claims("p", "gone"))
    assert world.attempt_all() == ["p"]
    await world.scheduler.close()
    assert counted.value("scheduler_preemption_attempts_total") == attempts

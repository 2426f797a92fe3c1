"""The parts of a scheduler work together: what the handlers take in, the loop schedules."""

import asyncio
import logging

import pytest
from prometheus_client import CollectorRegistry

from extender_service.cluster.sources.stores import NodeStore, PodStore
from extender_service.cluster.state.cluster import Cluster
from extender_service.config.loading import default_config
from extender_service.framework.handle import Handle
from extender_service.framework.registry.registry import Registry
from extender_service.kube.resources.api_resources import NODES, WATCHED_PODS
from extender_service.kube.types.core import Node, Pod
from extender_service.kube.writing.event_recorder import Occurrence
from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE
from extender_service.queue.scheduling_queue import MAX_IN_UNSCHEDULABLE_SECONDS
from extender_service.queue.waiting_queues import ACTIVE, UNSCHEDULABLE
from extender_service.scheduler.assembly import assemble
from extender_service.scheduler.metrics.pod_resources import PodResourceMetrics
from extender_service.scheduler.metrics.prometheus import SchedulerMetrics
from extender_service.scheduler.pod_lister import PodLister
from tests.support.clock import Clock
from tests.support.clusters.scheduler_world import NAME, WALL_SECONDS, Api, whole
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod

WEB = make_pod("web", requests={"cpu": "1"})
FULL = make_node("full", {"cpu": "0", "memory": "8Gi", "pods": "110"})


class World:
    """A scheduler with the default plugins, which looks for as many feasible nodes as `percentage` says."""

    def __init__(
        self, percentage: int | None = None, max_in_unschedulable_seconds: float = MAX_IN_UNSCHEDULABLE_SECONDS
    ) -> None:
        self.api, self.clock, self.registry = Api(), Clock(), CollectorRegistry()
        self.events: list[Occurrence] = []
        cluster, pending = Cluster(), PodLister()
        self.handle = Handle(cluster, self.api, clock=self.clock)
        self.resources = PodResourceMetrics(cluster, pending.__contains__)
        config = default_config(ARGS_TYPES)
        if percentage is not None:
            config = config.model_copy(update={"percentage_of_nodes_to_score": percentage})
        self.parts = assemble(
            config,
            Registry(IN_TREE).profiles(config, self.handle),
            self.handle,
            self.api,
            pending,
            self.events.append,
            sleep=asyncio.sleep,
            wall_clock=lambda: WALL_SECONDS,
            metrics=SchedulerMetrics(self.registry, self.clock),
            resources=self.resources,
            max_in_unschedulable_seconds=max_in_unschedulable_seconds,
        )
        self._nodes = self.parts.handlers.handler(NODES, NodeStore(cluster))
        self._pods = self.parts.handlers.handler(WATCHED_PODS, PodStore(cluster))

    def create(self, *objects: Node | Pod) -> None:
        for item in objects:
            if isinstance(item, Node):
                self._nodes.apply(item)
            else:
                self.api.pods[item.metadata.namespace, item.metadata.name] = item
                self._pods.apply(whole(item))

    async def attempt(self) -> None:
        info = self.parts.queue.pop()
        assert info is not None
        await self.parts.scheduler.schedule_one(info)
        await self.parts.scheduler.close()


@in_event_loop
async def test_a_pod_of_the_watch_is_bound_and_counted() -> None:
    world = World()
    world.create(make_node("a"), WEB)
    await world.attempt()
    assert world.api.pods["default", "web"].spec.node_name == "a"
    assert [event.reason for event in world.events] == ["Scheduled"]
    attempts = {"result": "scheduled", "profile": NAME}
    assert world.registry.get_sample_value("scheduler_schedule_attempts_total", attempts) == 1
    added = {"queue": "active", "event": "PodAdd"}
    assert world.registry.get_sample_value("scheduler_queue_incoming_pods_total", added) == 1
    assert 'pod="web"' in "".join(world.resources.exposition())


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
@in_event_loop
async def test_at_debug_the_log_has_the_scores_by_which_each_node_was_chosen(
    caplog: pytest.LogCaptureFixture, level: int
) -> None:
    pods = {f"default/web-{number}": make_pod(f"web-{number}", requests={"cpu": "1"}) for number in range(6)}
    with caplog.at_level(level, "extender_service"):
        world = World()
        world.create(make_node("a"), make_node("b"), FULL, *pods.values())
        for _ in pods:
            info = world.parts.queue.pop()
            assert info is not None
            await world.parts.scheduler.schedule_one(info)
        await world.parts.scheduler.close()
    lines = {vars(each)["pod"]: vars(each) for each in caplog.records if each.getMessage() == "chose a node"}
    assert lines.keys() == (pods.keys() if level == logging.DEBUG else set())
    for pod, line in lines.items():
        namespace, _, name = pod.partition("/")
        assert line["node"] == world.api.pods[namespace, name].spec.node_name
        best = [node.partition(":")[0].split() for node in line["scores"].split("; ")]
        assert best[0][0] == line["node"]
        assert int(best[0][1]) >= int(best[1][1])
        assert line["reasons"] == "2/3 nodes are available: 1 Insufficient cpu."


@in_event_loop
async def test_a_plugin_can_have_a_rejected_pod_tried_again() -> None:
    world = World()
    world.create(FULL, WEB)
    await world.attempt()
    assert world.parts.queue.pending_counts()[UNSCHEDULABLE] == 1
    world.handle.activate([WEB])
    assert world.parts.queue.pending_counts()[ACTIVE] == 1


@pytest.mark.parametrize(("percentage", "feasible"), [(None, 150), (10, 100)])
def test_as_many_nodes_are_looked_at_as_the_configuration_says(percentage: int | None, feasible: int) -> None:
    world = World(percentage)
    world.create(*(make_node(f"n{number}") for number in range(150)))
    assert len(world.parts.scheduler._attempts.decide(whole(WEB)).feasible) == feasible


@in_event_loop
async def test_a_pod_waits_for_an_event_no_longer_than_it_may() -> None:
    world = World(max_in_unschedulable_seconds=60.0)
    world.create(FULL, WEB)
    await world.attempt()
    for seconds, active in ((59.0, 0), (2.0, 1)):
        world.clock.pass_seconds(seconds)
        world.parts.queue.flush_unschedulable_leftover()
        assert world.parts.queue.pending_counts()[ACTIVE] == active

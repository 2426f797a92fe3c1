import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from examples.plugins.conftest import Clock, WebServer
from examples.plugins.cost_aware import CostAware, CostAwareArgs, CostFeed
from extender_service.plugin_api import Pod
from extender_service.simulation import Simulation
from extender_service.testing import Trial, make_node, make_pod

ZONE, COST = "topology.kubernetes.io/zone", "example.com/cost"
ZONES = Trial(make_node(name, labels={ZONE: f"zone-{name}"}) for name in ("a", "b", "c"))


@pytest.fixture
def plugin(web: WebServer, clock: Clock) -> CostAware:
    """Return a plugin that fetches costs only when a test calls `refresh`."""
    plugin = CostAware(CostAwareArgs(), ZONES.handle)
    plugin.feed = CostFeed(CostAwareArgs(url=web.url, max_age_seconds=60), clock)
    return plugin


@pytest.fixture
def working(web: WebServer) -> Iterator[CostAware]:
    """Yield a plugin that fetches costs in the background."""
    plugin = CostAware(CostAwareArgs(url=web.url, refresh_seconds=0.001), ZONES.handle)
    yield plugin
    web.open.set()
    plugin.feed.stop()
    for thread in threading.enumerate():
        if thread.name == "cost-feed":
            thread.join()


def test_nodes_are_scored_by_their_own_cost() -> None:
    costs = {"cheap": "0.10", "dear": "0.90", "middling": "0.30", "odd": "free", "huge": "1e999", "silent": None}
    trial = Trial(make_node(name, labels={} if cost is None else {COST: cost}) for name, cost in costs.items())
    scores = trial.scores(CostAware(CostAwareArgs(), trial.handle), Pod())
    assert scores == {"cheap": 100, "dear": 0, "middling": 75, "odd": 50, "huge": 50, "silent": 50}


def test_costs_by_zone_come_from_a_url(web: WebServer, plugin: CostAware) -> None:
    web.body = b'{"zone-a": 250, "zone-b": 50.5, "zone-z": 1}'
    plugin.feed.refresh()
    assert ZONES.scores(plugin, Pod()) == {"a": 0, "b": 100, "c": 50}


def test_a_nodes_own_cost_counts_before_that_of_its_zone(web: WebServer, plugin: CostAware) -> None:
    trial = Trial(
        [
            make_node("a", labels={ZONE: "zone-a"}),
            make_node("reserved", labels={ZONE: "zone-a", COST: "0"}),
        ]
    )
    web.body = b'{"zone-a": 250}'
    plugin.feed.refresh()
    assert trial.scores(plugin, Pod()) == {"a": 0, "reserved": 100}


def test_equal_costs_are_no_reason_to_choose(web: WebServer, plugin: CostAware) -> None:
    web.body = b'{"zone-a": 5, "zone-b": 5, "zone-c": 5}'
    plugin.feed.refresh()
    assert set(ZONES.scores(plugin, Pod()).values()) == {100}


@pytest.mark.parametrize(("status", "body"), [(503, b""), (200, b"<html>"), (200, b'{"zone-a": "dear"}')])
def test_when_the_source_fails_its_last_answer_counts_until_it_is_stale(
    web: WebServer, plugin: CostAware, clock: Clock, status: int, body: bytes
) -> None:
    web.body = b'{"zone-a": 1, "zone-b": 2, "zone-c": 3}'
    plugin.feed.refresh()
    web.status, web.body = status, body

    clock.now += 60
    plugin.feed.refresh()
    assert ZONES.scores(plugin, Pod()) == {"a": 100, "b": 50, "c": 0}

    clock.now += 1
    assert ZONES.scores(plugin, Pod()) == {}


def test_a_decision_does_not_wait_for_the_source(web: WebServer) -> None:
    web.open.clear()
    web.body = b'{"zone-a": 1, "zone-b": 2}'
    plugin = CostAware(CostAwareArgs(url=web.url), ZONES.handle)

    assert web.asked.wait(10)
    assert ZONES.scores(plugin, Pod()) == {}  # the server has the request, but has not answered yet

    web.open.set()
    wait_for_costs(plugin, {"zone-a": 1, "zone-b": 2})
    assert ZONES.scores(plugin, Pod()) == {"a": 100, "b": 0, "c": 50}
    plugin.feed.stop()


def test_a_simulation_has_the_costs_of_its_start_and_leaves_no_thread_behind(web: WebServer) -> None:
    web.body = b'{"zone-a": 250, "zone-b": 50.5}'
    config = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins: {{multiPoint: {{enabled: [{{name: CostAware}}]}}}}
    pluginConfig: [{{name: CostAware, args: {{url: "{web.url}"}}}}]
"""
    nodes = [make_node(name, {"pods": 10}, labels={ZONE: f"zone-{name}"}) for name in ("a", "b")]

    async def scenario() -> str:
        async with Simulation(nodes, config=config, plugins=[CostAware]) as simulation:
            simulation.time.pass_seconds(3600)  # in which costs of a real cluster would be stale
            simulation.create(make_pod("web"))
            await simulation.settle()
            return simulation.node_of(make_pod("web"))

    def feeds() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name == "cost-feed"}

    before = feeds()  # of other tests
    assert asyncio.run(scenario()) == "b"
    assert feeds() <= before


def test_costs_are_fetched_again_and_again(web: WebServer, working: CostAware) -> None:
    web.body = b'{"zone-a": 1}'
    wait_for_costs(working, {"zone-a": 1})
    web.body = b'{"zone-a": 2}'
    wait_for_costs(working, {"zone-a": 2})


def wait_for_costs(plugin: CostAware, expected: dict[str, float]) -> None:
    deadline = time.monotonic() + 10
    while plugin.feed.costs() != expected:
        assert time.monotonic() < deadline
        time.sleep(0.001)

import asyncio
import json
import time

import pytest
from prometheus_client import REGISTRY

from examples.plugins.conftest import WebServer
from examples.plugins.node_setup import SETUP, NodeSetup, NodeSetupArgs
from extender_service.plugin_api import SKIP, Code, CycleState, Pod, Status
from extender_service.simulation import Simulation
from extender_service.testing import Trial, make_node, make_pod

WARM_CACHE = make_pod("train", namespace="ml", annotations={SETUP: "warm-cache"})
PLAIN = make_pod("web")


def pre_bind(url: str, pod: Pod, timeout_seconds: float = 10.0) -> Status | None:
    plugin = NodeSetup(NodeSetupArgs(url=url, timeout_seconds=timeout_seconds), Trial().handle)
    return asyncio.run(plugin.pre_bind(CycleState(pod), pod, "gpu-1"))


def test_the_service_is_told_what_to_set_up_where(web: WebServer) -> None:
    assert pre_bind(web.url, WARM_CACHE) is None
    expected = {"setup": "warm-cache", "namespace": "ml", "pod": "train", "uid": "ml/train", "node": "gpu-1"}
    assert [json.loads(body) for body in web.received] == [expected]


def test_a_pod_without_the_annotation_is_not_asked_about(web: WebServer) -> None:
    assert pre_bind(web.url, PLAIN) is None
    assert not web.received


@pytest.mark.parametrize(("pod", "answer"), [(WARM_CACHE, None), (PLAIN, SKIP)])
def test_only_a_pod_with_the_annotation_waits_before_its_binding(pod: Pod, answer: Status | None) -> None:
    plugin = NodeSetup(NodeSetupArgs(url="http://setup.example"), Trial().handle)
    assert plugin.pre_bind_pre_flight(CycleState(pod), pod, "gpu-1") == answer


@pytest.mark.parametrize(
    ("answer", "code", "reason"),
    [
        (409, Code.UNSCHEDULABLE, "node gpu-1 cannot be set up: cache is full"),
        (500, Code.ERROR, "answered 500"),
    ],
)
def test_the_pod_is_not_bound_unless_the_service_agrees(web: WebServer, answer: int, code: Code, reason: str) -> None:
    web.status, web.body = answer, b"cache is full"
    status = pre_bind(web.url, WARM_CACHE)
    assert status is not None
    assert status.code == code
    assert reason in status.message


def test_answers_are_counted(web: WebServer) -> None:
    web.status = 207
    pre_bind(web.url, WARM_CACHE)
    pre_bind(web.url, WARM_CACHE)
    assert REGISTRY.get_sample_value("node_setup_answers_total", {"code": "207"}) == 2


def test_a_service_that_does_not_answer_in_time_is_an_error_that_names_the_node(web: WebServer) -> None:
    web.open.clear()
    status = pre_bind(web.url, WARM_CACHE, timeout_seconds=0.05)
    assert status is not None
    assert status.code == Code.ERROR
    assert "cannot set up gpu-1: ReadTimeout" in status.message


def test_other_calls_go_on_while_the_service_thinks(web: WebServer) -> None:
    async def scenario() -> Status | None:
        plugin = NodeSetup(NodeSetupArgs(url=web.url), Trial().handle)
        setup = asyncio.create_task(plugin.pre_bind(CycleState(WARM_CACHE), WARM_CACHE, "gpu-1"))
        deadline = time.monotonic() + 10
        while not web.asked.is_set():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.001)
        assert not setup.done()
        web.open.set()
        return await setup

    web.open.clear()
    assert asyncio.run(scenario()) is None


def test_a_simulation_asks_for_nothing(web: WebServer) -> None:
    config = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins: {{multiPoint: {{enabled: [{{name: NodeSetup}}]}}}}
    pluginConfig: [{{name: NodeSetup, args: {{url: "{web.url}"}}}}]
"""

    async def scenario() -> str:
        objects = [make_node("gpu-1", {"pods": 10}), WARM_CACHE]
        async with Simulation(objects, config=config, plugins=[NodeSetup]) as simulation:
            await simulation.settle()
            return simulation.node_of(WARM_CACHE)

    assert asyncio.run(scenario()) == "gpu-1"
    assert not web.asked.is_set()

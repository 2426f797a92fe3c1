"""The extender that does not decide refuses the pods of the workloads that fit no node, and no others."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from bench import programs
from bench.programs import Peers
from bench.workloads import churn, workloads
from tests.e2e.support.objects import Object


@pytest.fixture(scope="module")
def canned(build_go: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    build_go(programs.PEERS / "goextender")
    peers = Peers(tmp_path_factory.mktemp("canned"))
    with peers.canned() as server, httpx.Client(base_url=server.url, trust_env=False) as client:
        yield client


def nodes_for(pod: Object, canned: httpx.Client) -> list[str]:
    args = {"Pod": {"metadata": pod["metadata"], "spec": pod["spec"]}, "NodeNames": ["node-00000", "node-00001"]}
    answer = canned.post("/canned/1/filter", content=msgspec.json.encode(args)).raise_for_status().json()
    names: list[str] = answer["NodeNames"]
    return names


def test_pods_that_fit_get_the_node(canned: httpx.Client) -> None:
    for workload in workloads(node_count=10, pod_count=10):
        for pod in workload.measured:
            assert nodes_for(pod, canned) == ["node-00000"]


def test_pods_that_fit_no_node_get_none(canned: httpx.Client) -> None:
    hopeless = [pod for workload in workloads(node_count=10, pod_count=10) for pod in workload.hopeless]
    comes_and_goes = [each for each in churn() if each["kind"] == "Pod"]
    assert len(hopeless) > 0 < len(comes_and_goes)
    for pod in [*hopeless, *comes_and_goes]:
        assert nodes_for(pod, canned) == []

"""The service ends in the middle of its work, by force or because it is told to."""

import os
import signal
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx

from tests.e2e.support.mixed_cluster import mixed_nodes, mixed_pods
from tests.e2e.support.objects import node, pod
from tests.e2e.support.placement_rules import violations
from tests.e2e.support.programs import schedulers
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.processes import Process
from tests.e2e.support.programs.service import Service
from tests.e2e.support.waiting import wait_until


def test_killed_and_started_again_it_gets_every_pod_bound_once(empty_cluster: ControlPlane, tmp_path: Path) -> None:
    api = empty_cluster.api
    api.create(*mixed_nodes())
    with (
        Service(tmp_path, empty_cluster.kubeconfig) as service,
        schedulers.running(empty_cluster, schedulers.replacing(service.url, node_cache_capable=True)),
    ):
        pods = mixed_pods()
        for part in (pods[:200], pods[200:]):
            api.create(*part)
            wait_until(partial(tells_bindings, service, len(part) // 2), "the service to be in the middle of its work")
            service.process.kill()
            service.start_again()
        wait_until(lambda: not api.list_all("Pod", field_selector="spec.nodeName="), "all pods to be bound", 60)

        stored = api.list_all("Pod")
        assert len(stored) == 500
        assert violations(api.list_all("Node"), stored) == []
        # A binding whose answer was lost is told by neither of the two.
        told = defaultdict(set)
        for line in service.decisions("bind"):
            told[line["pod"]].add(line["node"])
        for event in api.list_all("Event", api_version="events.k8s.io/v1", namespace="default"):
            if event["reason"] == "Scheduled":
                told[f"default/{event['regarding']['name']}"].add(event["note"].rpartition(" ")[2])
        bound_to = {f"default/{bound['metadata']['name']}": {bound["spec"]["nodeName"]} for bound in stored}
        assert {name: nodes for name, nodes in told.items() if nodes != bound_to[name]} == {}


def test_told_to_stop_it_leaves_with_connections_and_watches_open(empty_cluster: ControlPlane, tmp_path: Path) -> None:
    empty_cluster.api.create(node("a"))
    with Service(tmp_path, empty_cluster.kubeconfig) as service:
        service.call("filter", {"Pod": pod("p"), "NodeNames": ["a"]})  # this connection stays open

        assert service.process.stop() == 0


def test_told_to_stop_it_finishes_the_call_under_way(empty_cluster: ControlPlane, tmp_path: Path) -> None:
    empty_cluster.api.create(node("a"))
    [wanted] = empty_cluster.api.create(pod("p"))
    with Service(tmp_path, empty_cluster.kubeconfig) as service, ThreadPoolExecutor() as pool:
        assert service.call("filter", {"Pod": wanted, "NodeNames": ["a"]})["NodeNames"] == ["a"]
        uid = wanted["metadata"]["uid"]
        binding = {"PodName": "p", "PodNamespace": "default", "PodUID": uid, "Node": "a"}
        with paused(empty_cluster.api_server):
            answer = pool.submit(service.call, "bind", binding)
            wait_until(lambda: service.metric("scheduler_scheduler_cache_size", type="assumed_pods"), "the binding")
            exit_code = pool.submit(service.process.stop)
            wait_until(lambda: not accepts_connections(service.url), "the service to take no more calls")
            assert not answer.done()

        assert answer.result() == {"Error": ""}
        assert exit_code.result() == 0
    assert empty_cluster.api.get("Pod", "p", namespace="default")["spec"]["nodeName"] == "a"


def tells_bindings(service: Service, more: int) -> bool:
    """Whether so many pods have been bound since it was started."""
    return service.is_ready() and service.requests("bind", "ok") >= more


@contextmanager
def paused(process: Process) -> Iterator[None]:
    """A process that does nothing, as long as the context lasts, though its connections stay open."""
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


def accepts_connections(url: str) -> bool:
    try:
        httpx.get(f"{url}/livez", trust_env=False)
    except httpx.TransportError:
        return False
    return True

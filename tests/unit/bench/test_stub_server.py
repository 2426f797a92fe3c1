"""The API server that costs next to nothing does what schedulers need of one."""

import asyncio
import json
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import pytest

from bench import programs
from bench.programs import Peers
from bench.scheduler.api_servers import Site
from bench.scheduler.contestants import CONTESTANTS, FLOOR, Launch
from bench.scheduler.measurement import measure
from bench.scheduler.scenes import SCENES
from bench.scheduler.stub_server import StubApiServer, stub_site
from bench.workloads import NAMESPACE
from extender_service.kube.api_errors import ApiError
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.connection.server_version import server_minor
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.kube.resources.api_resources import NODES, PODS
from tests.e2e.support import objects
from tests.e2e.support.api import APIError
from tests.e2e.support.programs.processes import Process
from tests.e2e.support.waiting import wait_until
from tests.support import go_programs

SCENE = SCENES["basic"](10, 20)
PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stub")


@pytest.fixture(scope="module")
def site(build_go: Callable[[Path], Path], directory: Path) -> Iterator[Site]:
    for program in ("stubapi", "floor"):
        build_go(programs.PEERS / program)
    with stub_site(Peers(directory), directory, SCENE) as made:
        yield made


@pytest.fixture
def server(site: Site) -> Iterator[StubApiServer]:
    with site() as running:
        assert isinstance(running, StubApiServer)
        yield running


def bind(server: StubApiServer, pod: str, node: str, uid: str = "") -> None:
    target = {"kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod, "uid": uid}, "target": target}
    server.api.request("POST", f"{PODS_PATH}/{pod}/binding", body)


def test_it_has_the_objects_of_the_scene_completed_as_by_an_api_server(server: StubApiServer) -> None:
    assert len(server.api.list_all("Node")) == 10
    pod = server.api.get("Pod", "pod-00000", namespace=NAMESPACE)
    assert pod["spec"]["schedulerName"] == "default-scheduler"
    assert pod["spec"]["priority"] == 0
    assert pod["status"]["phase"] == "Pending"
    assert pod["metadata"]["uid"]


def test_a_binding_gives_the_pod_its_node_once(server: StubApiServer) -> None:
    with pytest.raises(APIError, match="for the pod of uid other") as wrong_uid:
        bind(server, "pod-00000", "node-00001", uid="other")
    bind(server, "pod-00000", "node-00001")
    with pytest.raises(APIError, match=r"already assigned to node .*node-00001") as again:
        bind(server, "pod-00000", "node-00002")
    with pytest.raises(APIError) as unknown:
        bind(server, "nobody", "node-00001")

    assert [each.value.status_code for each in (wrong_uid, again, unknown)] == [409, 409, 404]
    pod = server.api.get("Pod", "pod-00000", namespace=NAMESPACE)
    assert pod["spec"]["nodeName"] == "node-00001"
    assert [(each["type"], each["status"]) for each in pod["status"]["conditions"]] == [("PodScheduled", "True")]


def test_a_watch_shows_what_came_after_its_version(server: StubApiServer) -> None:
    async def scenario() -> list[tuple[str, str, str]]:
        async with KubeClient(load_credentials(server.kubeconfig)) as client:
            version = await client.get(PODS, NAMESPACE, "pod-00019")
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, bind, server, "pod-00003", "node-00001")
            await loop.run_in_executor(None, server.delete, objects.pod("pod-00004"))
            async with client.watch(PODS, version.metadata.resource_version, timeout_seconds=1) as events:
                return [(each.type, each.object.metadata.name, each.object.spec.node_name) async for each in events]

    bound, deleted, bookmark = asyncio.run(scenario())
    assert bound == ("MODIFIED", "pod-00003", "node-00001")
    assert deleted == ("DELETED", "pod-00004", "")
    assert bookmark[0] == "BOOKMARK"


def test_a_watch_with_a_selector_shows_what_comes_into_it_and_leaves_it(server: StubApiServer) -> None:
    async def types(client: KubeClient, version: str, selector: str) -> list[str]:
        async with client.watch(PODS, version, field_selector=selector, timeout_seconds=1) as events:
            return [event.type async for event in events if event.type != "BOOKMARK"]

    async def scenario() -> list[list[str]]:
        async with KubeClient(load_credentials(server.kubeconfig)) as client:
            version = (await client.get(PODS, NAMESPACE, "pod-00019")).metadata.resource_version
            await asyncio.get_running_loop().run_in_executor(None, bind, server, "pod-00003", "node-00001")
            selectors = ("spec.nodeName!=", "spec.nodeName=", "metadata.name=other")
            return await asyncio.gather(*(types(client, version, selector) for selector in selectors))

    assert asyncio.run(scenario()) == [["ADDED"], ["DELETED"], []]


def test_statuses_and_labels_are_patched(server: StubApiServer) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}

    async def scenario() -> str:
        async with KubeClient(load_credentials(server.kubeconfig)) as client:
            patch = {"status": {"conditions": [condition], "nominatedNodeName": "node-00001"}}
            await client.patch(PODS, NAMESPACE, "pod-00000", patch, subresource="status")
            return (await client.get(PODS, NAMESPACE, "pod-00000")).status.nominated_node_name

    assert asyncio.run(scenario()) == "node-00001"
    bind(server, "pod-00000", "node-00002")
    pod = server.api.get("Pod", "pod-00000", namespace=NAMESPACE)
    assert [each["status"] for each in pod["status"]["conditions"]] == ["True"]
    [node] = server.api.patch(objects.node("node-00001"), patch={"metadata": {"labels": {"tick": "1"}}})
    assert node["metadata"]["labels"]["tick"] == "1"


def write_event(server: StubApiServer, reason: str) -> None:
    path = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
    server.api.request("POST", path, {"metadata": {"name": reason.lower()}, "reason": reason})


def test_it_counts_bindings_and_events_and_notes_when_pods_were_created_and_bound(server: StubApiServer) -> None:
    bind(server, "pod-00000", "node-00001")
    server.create(objects.pod("late"))
    bind(server, "late", "node-00001")
    for reason in ("Scheduled", "FailedScheduling"):
        write_event(server, reason)

    counts = server.counts()

    assert (counts.bound, counts.events, counts.other_events) == (2, 1, 1)
    first, late = sorted(server.bound_pods(), key=lambda pod: pod.bound_at)
    assert first.created_at < first.bound_at < late.created_at < late.bound_at
    assert (first.bound_at, late.bound_at) == (counts.first_write, counts.last_binding)
    assert counts.last_binding <= counts.last_event


def test_it_notes_when_a_scheduler_wrote_first_whatever_that_was(site: Site) -> None:
    low = objects.pod("old-00000")
    status = {"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}}
    writes: list[Callable[[StubApiServer], object]] = [
        lambda server: server.api.patch(low, patch=status, subresource="status"),
        lambda server: server.api.delete(low),
        lambda server: write_event(server, "FailedScheduling"),
        lambda server: bind(server, "pod-00001", "node-00001"),
    ]
    for write in writes:
        with site() as server:
            assert isinstance(server, StubApiServer)
            server.create(objects.pod("other"))
            server.delete(objects.pod("other"))
            server.api.list_all("Pod")
            assert server.counts().first_write == 0
            write(server)
            first = server.counts().first_write
            bind(server, "pod-00000", "node-00001")
            assert 0 < first == server.counts().first_write


def test_its_release_is_1_31_and_unknown_kinds_are_not_found(server: StubApiServer) -> None:
    async def scenario() -> int:
        async with KubeClient(load_credentials(server.kubeconfig)) as client:
            with pytest.raises(ApiError):
                await client.get(NODES, "", "nobody")
            return await server_minor(client)

    assert asyncio.run(scenario()) == 31
    with pytest.raises(APIError) as unknown:
        server.api.request("GET", "/apis/example.com/v1/unknown")
    assert unknown.value.status_code == 404


def test_the_program_that_does_not_think_binds_all_pods_with_an_event_each(site: Site, directory: Path) -> None:
    with site() as server:
        pace = measure(server, SCENE, CONTESTANTS[FLOOR], Launch(server.kubeconfig, directory))
        pods = server.api.list_all("Pod", namespace=NAMESPACE)
    assert (pace.bound, pace.events_missing, pace.other_events) == (20, 0, 0)
    of_nodes = [pod["spec"]["nodeName"] for pod in pods if pod["metadata"]["name"].startswith("pod")]
    assert sorted(of_nodes) == sorted([node["metadata"]["name"] for node in SCENE.nodes] * 2)


def test_the_program_that_does_not_think_says_in_the_end_what_it_did(server: StubApiServer, directory: Path) -> None:
    program = go_programs.build(programs.PEERS / "floor")
    process = Process([program, f"-kubeconfig={server.kubeconfig}"], directory / "alone.log")
    try:
        wait_until(lambda: server.counts().events == 20, "all events")
    finally:
        assert process.stop() == 0
    said = json.loads(process.log_tail(1))
    assert said.pop("cpu_seconds") > 0
    assert said == {"bound": 20, "refused": 0, "events_written": 20, "events_dropped": 0}


def test_a_list_comes_in_pages_of_the_limit_unless_version_0_is_asked_for(server: StubApiServer) -> None:
    first = server.api.request("GET", "/api/v1/nodes?limit=4")
    second = server.api.request("GET", f"/api/v1/nodes?limit=4&continue={first['metadata']['continue']}")
    last = server.api.request("GET", f"/api/v1/nodes?limit=4&continue={second['metadata']['continue']}")
    pages = [[node["metadata"]["name"] for node in page["items"]] for page in (first, second, last)]
    assert [len(page) for page in pages] == [4, 4, 2]
    assert sorted(chain.from_iterable(pages)) == [f"node-{number:05}" for number in range(10)]
    assert not last["metadata"]["continue"]
    assert {page["metadata"]["resourceVersion"] for page in (first, second, last)} == {
        first["metadata"]["resourceVersion"]
    }
    assert len(server.api.request("GET", "/api/v1/nodes?limit=4&resourceVersion=0")["items"]) == 10
    with pytest.raises(APIError, match="continue token"):
        server.api.request("GET", f"/api/v1/nodes?limit=4&continue={first['metadata']['continue']}")

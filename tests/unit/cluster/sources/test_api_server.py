import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from msgspec import structs

from extender_service.cluster.debugging.comparison import compare
from extender_service.cluster.sources.api_server import ApiServer
from extender_service.cluster.sources.binding_right import BindingRight, ReviewTimes
from extender_service.cluster.sources.object_api import ObjectApi
from extender_service.cluster.sources.stores import NOT_ENDED, NodeStore
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.structures.shown_kinds import HiddenKindError
from extender_service.config.rules import NEWEST_RULES
from extender_service.kube.api_errors import ApiError
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.kube.resources.any_kind import AnyObject, any_kind
from extender_service.kube.types.core import Node
from extender_service.kube.types.keys import Key
from extender_service.kube.types.storage import PersistentVolumeClaim
from extender_service.kube.types.workloads import Namespace, ReplicaSet
from extender_service.kube.watching.reflector import Limits
from tests.support.objects import make_pod
from tests.support.servers.http_server import Request, Response, http_server

T = TypeVar("T")

NODE = {"metadata": {"name": "a", "resourceVersion": "1"}, "status": {"allocatable": {"cpu": "4", "pods": "10"}}}
POD = {
    "metadata": {"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "2"},
    "spec": {"nodeName": "a"},
}

NAMESPACE = {"metadata": {"name": "shop", "labels": {"team": "a"}, "resourceVersion": "3"}}


class Server:
    """Lists one node and one pod, and adds a node by watch; or refuses everything."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.refusal: dict[str, Any] | None = None
        self.holds_pods = asyncio.Event()
        self.serves_widgets = False

    async def __call__(self, request: Request, response: Response) -> None:
        self.requests.append(request)
        if self.refusal is not None:
            await response.send_json(self.refusal["code"], self.refusal)
        elif "watch" in request.query:
            await response.start_chunks()
            if request.path == "/api/v1/nodes":
                added = {"type": "ADDED", "object": {"metadata": {"name": "b", "resourceVersion": "9"}}}
                await response.send_chunk(json.dumps(added).encode() + b"\n")
            await asyncio.sleep(3600)
        elif request.path == "/api/v1/nodes":
            await response.send_json(200, {"metadata": {"resourceVersion": "5"}, "items": [NODE]})
        elif request.path == "/api/v1/namespaces":
            await response.send_json(200, {"metadata": {"resourceVersion": "5"}, "items": [NAMESPACE]})
        elif request.path == "/apis/example.com/v1/widgets":
            await self._list_widgets(response)
        elif request.path == "/apis/apps/v1/replicasets":
            await response.send_json(200, {"metadata": {"resourceVersion": "5"}, "items": []})
        else:
            await self.holds_pods.wait()
            await response.send_json(200, {"metadata": {"resourceVersion": "5"}, "items": [POD]})

    async def _list_widgets(self, response: Response) -> None:
        if self.serves_widgets:
            widgets = [{"metadata": {"name": "w", "resourceVersion": "4"}}]
            await response.send_json(200, {"metadata": {"resourceVersion": "5"}, "items": widgets})
        else:
            message = "the server could not find the requested resource"
            await response.send_json(404, {"kind": "Status", "code": 404, "reason": "NotFound", "message": message})


def with_server(call: Callable[[ApiServer, Cluster, Server], Awaitable[T]]) -> T:
    async def run() -> T:
        server, cluster = Server(), Cluster()
        async with http_server(server) as url, KubeClient(load_credentials(master=url)) as client:
            return await call(ApiServer(cluster, client), cluster, server)

    return asyncio.run(run())


def test_the_cluster_is_what_the_api_server_lists_and_tells_later() -> None:
    async def call(api_server: ApiServer, cluster: Cluster, server: Server) -> None:
        following = asyncio.create_task(api_server.follow())
        synced = asyncio.create_task(api_server.wait_synced())
        async with asyncio.timeout(10):
            while "b" not in cluster.node_names():
                await asyncio.sleep(0.001)
        assert (api_server.states["nodes"].synced, api_server.states["pods"].synced) == (True, False)
        assert not synced.done()
        server.holds_pods.set()
        async with asyncio.timeout(10):
            await synced
        following.cancel()
        assert (cluster.node_names(), cluster.pod_keys()) == (["a", "b"], [("default", "web")])
        facts = cluster.pod("u")
        assert facts is not None
        assert facts.node_name == "a"
        pods_asked = {request.query.get("fieldSelector") for request in server.requests if "pods" in request.path}
        assert pods_asked == {NOT_ENDED}
        assert {request.query.get("fieldSelector") for request in server.requests if "pods" not in request.path} == {
            None
        }

    with_server(call)


class Stopped(NodeStore):
    """Looks at a task that was cancelled."""

    def apply(self, obj: Node) -> None:
        raise asyncio.CancelledError("stopped")


def test_a_watch_whose_store_raises_cancelled_error_does_not_end_unnoticed() -> None:
    async def call(api_server: ApiServer, cluster: Cluster, server: Server) -> None:
        api_server.handle_with(lambda resource, store: Stopped(cluster) if resource.type is Node else store)
        with pytest.raises(ExceptionGroup) as raised:
            async with asyncio.timeout(10):
                await api_server.follow()
        (error,) = raised.value.exceptions
        assert str(error) == "nodes: a change cannot be taken in"
        assert isinstance(error.__cause__, asyncio.CancelledError)

    with_server(call)


def test_a_pod_that_was_placed_and_is_not_listed_counts_no_more() -> None:
    """It was created, and has gone, while no watch was open."""

    async def call(api_server: ApiServer, cluster: Cluster, server: Server) -> None:
        for name, version in ("older", "4"), ("newer", "6"):
            pod = make_pod(name)
            seen = structs.replace(pod, metadata=structs.replace(pod.metadata, resource_version=version))
            cluster.placements.place(seen, name, "a")
        server.holds_pods.set()
        following = asyncio.create_task(api_server.follow())
        async with asyncio.timeout(10):
            await api_server.wait_synced()
        following.cancel()
        assert [placement.uid for placement in cluster.placements] == ["newer"]

    with_server(call)


def test_other_kinds_are_followed_where_somebody_reads_them() -> None:
    async def run() -> None:
        server, cluster = Server(), Cluster()
        server.holds_pods.set()
        async with http_server(server) as url, KubeClient(load_credentials(master=url)) as client:
            api_server = ApiServer(cluster, client, {Namespace})
            with pytest.raises(HiddenKindError, match="ReplicaSet"):
                cluster.workloads.of(ReplicaSet)
            api_server.also_read({ReplicaSet})
            following = asyncio.create_task(api_server.follow())
            async with asyncio.timeout(10):
                await api_server.wait_synced()
            following.cancel()
            listed = await api_server.list_cluster()
        assert set(api_server.states) == {"nodes", "pods", "namespaces", "replicasets"}
        assert listed.workloads.namespace_labels("shop") == {"team": "a"}
        assert listed.pod_keys() == [("default", "web")]
        assert cluster.workloads.namespace_labels("shop") == {"team": "a"}
        assert cluster.workloads.find(ReplicaSet, ("shop", "web")) is None
        with pytest.raises(HiddenKindError):  # it wakes pods, and no plugin reads it
            cluster.workloads.of(ReplicaSet)
        lists = {request.path for request in server.requests if "watch" not in request.query}
        assert lists == {"/api/v1/nodes", "/api/v1/pods", "/api/v1/namespaces", "/apis/apps/v1/replicasets"}

    asyncio.run(run())


class Widgets:
    """Keeps the names of what it is shown."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def apply(self, obj: AnyObject) -> None:
        self.names.append(obj.metadata.name)

    def remove(self, key: Key) -> None:
        self.names.remove(key[1])

    def keys(self) -> list[Key]:
        return [("", name) for name in self.names]


def test_a_kind_that_is_only_watched_is_logged_and_tried_again_while_it_is_not_served(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extender_service.cluster.sources.api_server._LATER", Limits(wait_seconds=0.05))

    async def call(api_server: ApiServer, cluster: Cluster, server: Server) -> None:
        server.holds_pods.set()
        widgets = Widgets()
        name = "widgets.v1.example.com"
        api_server.also_watch(name, any_kind(name, keeps_json=False), widgets)
        following = asyncio.create_task(api_server.follow())
        async with asyncio.timeout(10):
            await api_server.wait_synced()  # not held up
            assert (set(api_server.states), api_server.states[name].synced) == ({"nodes", "pods", name}, False)
            server.serves_widgets = True
            while not api_server.states[name].synced:
                await asyncio.sleep(0.01)
        assert widgets.names == ["w"]
        following.cancel()

    with_server(call)
    [line] = [record for record in caplog.records if "cannot be listed" in record.message]
    assert (line.levelname, vars(line)["kind"]) == ("WARNING", "widgets.v1.example.com")
    assert "could not find the requested resource" in vars(line)["problem"]


def test_a_kind_that_is_only_watched_is_listed_before_the_work_begins_if_it_is_served() -> None:
    async def call(api_server: ApiServer, cluster: Cluster, server: Server) -> list[str]:
        server.holds_pods.set()
        server.serves_widgets = True
        widgets = Widgets()
        api_server.also_watch("widgets", any_kind("widgets.v1.example.com", keeps_json=False), widgets)
        following = asyncio.create_task(api_server.follow())
        async with asyncio.timeout(10):
            await api_server.wait_synced()
        following.cancel()
        return list(widgets.names)

    assert with_server(call) == ["w"]


def test_a_kind_that_is_needed_besides_is_read_once() -> None:
    async def call(api_server: ApiServer, cluster: Cluster, server: Server) -> None:
        api_server.also_read({ReplicaSet})
        api_server.also_read({ReplicaSet, Namespace})
        assert list(api_server.states) == ["nodes", "pods", "replicasets", "namespaces"]

    with_server(call)


@pytest.mark.parametrize(("code", "asked"), [(403, 2), (409, 1)])
def test_the_right_to_bind_is_asked_about_once_all_is_listed_and_after_a_403(code: int, asked: int) -> None:
    namespaces: list[str] = []

    async def may_bind(namespace: str) -> bool:
        namespaces.append(namespace)
        return True

    async def run() -> None:
        server, cluster = Server(), Cluster()
        right = BindingRight(may_bind, cluster, times=ReviewTimes(closest_seconds=0.0))
        async with http_server(server) as url, KubeClient(load_credentials(master=url)) as client:
            api_server, objects = ApiServer(cluster, client, binding_right=right), ObjectApi(client, right)
            following = asyncio.create_task(api_server.follow())
            await asyncio.sleep(0.1)
            assert not namespaces
            server.holds_pods.set()
            async with asyncio.timeout(10):
                while right.problem() is not None:
                    await asyncio.sleep(0.01)
            server.refusal = {"kind": "Status", "code": code, "reason": "", "message": "no"}
            with pytest.raises(ApiError):
                await objects.bind_pod("default", "web", "u", "a")
            async with asyncio.timeout(10):
                while len(namespaces) < asked:
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            following.cancel()
        assert namespaces == [""] * asked

    asyncio.run(run())


def test_a_cluster_is_listed_afresh_beside_the_one_that_is_followed() -> None:
    async def call(api_server: ApiServer, cluster: Cluster, server: Server) -> None:
        server.holds_pods.set()
        listed = await api_server.list_cluster()
        assert (listed.node_names(), listed.pod_keys()) == (["a"], [("default", "web")])
        assert cluster.node_names() == []
        pods_asked = {request.query.get("fieldSelector") for request in server.requests if "pods" in request.path}
        assert pods_asked == {NOT_ENDED}

    with_server(call)


def test_what_is_listed_afresh_counts_as_in_the_release_that_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POD["spec"], "resources", {"requests": {"cpu": "3"}})  # which v1.31 does not know

    async def run() -> list[str]:
        server, cluster = Server(), Cluster(NEWEST_RULES)
        server.holds_pods.set()
        async with http_server(server) as url, KubeClient(load_credentials(master=url)) as client:
            api_server = ApiServer(cluster, client)
            following = asyncio.create_task(api_server.follow())
            async with asyncio.timeout(10):
                while "b" not in cluster.node_names():
                    await asyncio.sleep(0.001)
                await api_server.wait_synced()
            following.cancel()
            cluster.remove_node("b")  # which only the watch has shown
            return compare(cluster, await api_server.list_cluster()).lines()

    assert asyncio.run(run()) == []


class Claims:
    """Lists one claim, and removes it by watch when told."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self.is_removed = asyncio.Event()

    async def __call__(self, request: Request, response: Response) -> None:
        self.paths.add(request.path)
        claim = {
            "metadata": {"resourceVersion": "6", "name": "data", "namespace": "default"},
            "spec": {"volumeName": "v"},
        }
        if "watch" not in request.query:
            items = [claim] if request.path.endswith("persistentvolumeclaims") else []
            await response.send_json(200, {"metadata": {"resourceVersion": "5"}, "items": items})
            return
        await response.start_chunks()
        if request.path.endswith("persistentvolumeclaims"):
            await self.is_removed.wait()
            await response.send_chunk(json.dumps({"type": "DELETED", "object": claim}).encode() + b"\n")
        await asyncio.sleep(3600)


def test_other_kinds_are_watched_only_where_they_are_read() -> None:
    async def run() -> set[str]:
        server, cluster = Claims(), Cluster()
        async with http_server(server) as url, KubeClient(load_credentials(master=url)) as client:
            api_server = ApiServer(cluster, client, {PersistentVolumeClaim})
            following = asyncio.create_task(api_server.follow())
            async with asyncio.timeout(10):
                await api_server.wait_synced()
                assert cluster.storage.claim("default", "data") is not None
                server.is_removed.set()
                while cluster.storage.keys(PersistentVolumeClaim):
                    await asyncio.sleep(0.001)
            following.cancel()
            assert set(api_server.states) == {"nodes", "pods", "persistentvolumeclaims"}
            return server.paths

    assert asyncio.run(run()) == {"/api/v1/nodes", "/api/v1/pods", "/api/v1/persistentvolumeclaims"}

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import pytest

from extender_service.cluster.sources.object_api import ASKED_AGAIN, ObjectApi
from extender_service.kube.api_errors import ApiError, KubeError
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.kube.types.core import ObjectMeta
from extender_service.kube.types.storage import (
    ClaimReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
)
from tests.support.servers.http_server import Request, Response, http_server
from tests.support.storage_objects import make_claim, make_volume

T = TypeVar("T")


class Server:
    """Has one pod, and takes every write; or refuses everything."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.refusal: dict[str, Any] | None = None

    async def __call__(self, request: Request, response: Response) -> None:
        self.requests.append(request)
        if self.refusal is not None:
            await response.send_json(self.refusal["code"], self.refusal)
        elif request.method == "PATCH":
            written = {"name": request.path.rpartition("/")[2], "resourceVersion": "8"}
            await response.send_json(200, {"metadata": written})
        elif request.method == "POST":
            await response.send_json(201, {"kind": "Status", "status": "Success"})
        else:
            assert request.path == "/api/v1/namespaces/default/pods/web"
            await response.send_json(200, {"metadata": {"name": "web", "namespace": "default", "uid": "u"}})


def with_server(call: Callable[[ObjectApi, Server], Awaitable[T]]) -> T:
    async def run() -> T:
        server = Server()
        async with http_server(server) as url, KubeClient(load_credentials(master=url)) as client:
            return await call(ObjectApi(client), server)

    return asyncio.run(run())


def test_a_pod_is_read_by_name() -> None:
    pod = with_server(lambda objects, _: objects.get_pod("default", "web"))
    assert pod is not None
    assert pod.metadata.uid == "u"


def refused(code: int, reason: str) -> Callable[[ObjectApi, Server], Awaitable[object]]:
    async def call(objects: ObjectApi, server: Server) -> object:
        server.refusal = {"kind": "Status", "code": code, "reason": reason, "message": "no"}
        return await objects.get_pod("default", "web")

    return call


def test_a_pod_that_is_not_there_is_none_and_any_other_refusal_an_error() -> None:
    assert with_server(refused(404, "NotFound")) is None
    with pytest.raises(ApiError, match="no"):
        with_server(refused(403, "Forbidden"))


def test_a_binding_has_the_uid_as_precondition() -> None:
    async def call(objects: ObjectApi, server: Server) -> Request:
        await objects.bind_pod("default", "web", "u", "a")
        return server.requests[0]

    request = with_server(call)
    assert request.path == "/api/v1/namespaces/default/pods/web/binding"
    body = json.loads(request.body)
    assert (body["metadata"]["uid"], body["target"]["name"]) == ("u", "a")


def test_a_pod_is_changed_in_one_annotation_with_the_uid_as_precondition() -> None:
    async def call(objects: ObjectApi, server: Server) -> Request:
        await objects.touch_pod("default", "web", "u")
        return server.requests[0]

    request = with_server(call)
    assert request.path == "/api/v1/namespaces/default/pods/web"
    (annotation,) = json.loads(request.body)["metadata"].pop("annotations").items()
    assert json.loads(request.body) == {"metadata": {"uid": "u", "annotations": dict([annotation])}}
    assert annotation[0] == ASKED_AGAIN
    assert datetime.fromisoformat(annotation[1]).tzinfo is UTC


def test_a_write_of_a_status_returns_the_version_of_the_pod() -> None:
    async def call(objects: ObjectApi, server: Server) -> Request:
        assert await objects.patch_pod_status("default", "web", {"status": {"nominatedNodeName": "a"}}) == "8"
        return server.requests[0]

    request = with_server(call)
    assert request.path == "/api/v1/namespaces/default/pods/web/status"
    assert json.loads(request.body) == {"status": {"nominatedNodeName": "a"}}


def test_a_volume_and_a_claim_are_written_unless_they_have_changed() -> None:
    metadata = ObjectMeta(name="v", resource_version="7", annotations={"x": "y"})
    reference = ClaimReference("default", "c", "uid-of-c", "6")
    volume = PersistentVolume(metadata, PersistentVolumeSpec(claim_ref=reference))
    claim = PersistentVolumeClaim(
        ObjectMeta(name="c", namespace="default", resource_version="6", annotations={"a": "b"})
    )

    async def call(objects: ObjectApi, server: Server) -> list[Request]:
        assert (await objects.write_volume(volume)).metadata.resource_version == "8"
        assert (await objects.write_claim(claim)).metadata.resource_version == "8"
        return server.requests

    requests = with_server(call)
    assert [request.path for request in requests] == [
        "/api/v1/persistentvolumes/v",
        "/api/v1/namespaces/default/persistentvolumeclaims/c",
    ]
    kept_for = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "c",
        "uid": "uid-of-c",
        "resourceVersion": "6",
    }
    assert [json.loads(request.body) for request in requests] == [
        {"metadata": {"resourceVersion": "7", "annotations": {"x": "y"}}, "spec": {"claimRef": kept_for}},
        {"metadata": {"resourceVersion": "6", "annotations": {"a": "b"}}},
    ]


class ClientWithoutCredentials:
    """Fails as KubeClient does where an exec plugin fails."""

    def __getattr__(self, name: str) -> Callable[..., Awaitable[None]]:
        async def fail(*_: object, **__: object) -> None:
            raise CredentialsError("the exec plugin fails")

        return fail


REQUESTS: dict[str, tuple[Any, ...]] = {
    "get_pod": ("default", "web"),
    "get_pod_json": ("default", "web"),
    "bind_pod": ("default", "web", "u", "a"),
    "patch_pod_status": ("default", "web", {}),
    "touch_pod": ("default", "web", "u"),
    "delete_pod": ("default", "web", "u"),
    "write_volume": (make_volume("v"),),
    "write_claim": (make_claim("c"),),
}


@pytest.mark.parametrize("request_name", REQUESTS)
def test_without_credentials_every_request_fails_like_any_other_failure(request_name: str) -> None:
    objects = ObjectApi(cast(KubeClient, ClientWithoutCredentials()))
    with pytest.raises(KubeError, match="the exec plugin fails"):
        asyncio.run(getattr(objects, request_name)(*REQUESTS[request_name]))


def test_all_requests_are_covered_here() -> None:
    methods = inspect.getmembers(ObjectApi, inspect.iscoroutinefunction)
    assert {name for name, _ in methods if not name.startswith("_")} == REQUESTS.keys()

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from extender_service.kube.api_errors import ApiError, InvalidAnswerError, SilentError
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.kube.writing.leases import LeaseLock, LeaseRecord, lease_holder
from tests.support.servers.http_server import Request, Response, http_server


def holder(status: int, body: Any) -> str:
    """Who holds the lease locks/web, by what the API server answers."""

    async def handler(request: Request, response: Response) -> None:
        assert request.path == "/apis/coordination.k8s.io/v1/namespaces/locks/leases/web"
        await response.send_json(status, body, {})

    async def main() -> str:
        async with http_server(handler) as url, KubeClient(load_credentials(master=url)) as client:
            return await lease_holder(client, "locks", "web")

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"holderIdentity": "pair-a_1", "renewTime": "2024-01-01T00:00:00.000000Z"}, "pair-a_1"),
        ({"holderIdentity": ""}, ""),
        ({"holderIdentity": None}, ""),
        (None, ""),
    ],
)
def test_a_lease_says_who_holds_it(spec: Any, says: str) -> None:
    assert holder(200, {"metadata": {"name": "web"}, "spec": spec}) == says


def test_nobody_holds_a_lease_that_does_not_exist() -> None:
    assert holder(404, {"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"}) == ""


def test_a_refusal_is_an_error() -> None:
    with pytest.raises(ApiError, match="not for you"):
        holder(403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "not for you"})


class LeaseServer:
    """The API server's part in an election: keeps one lease, with versions."""

    def __init__(self, lease: dict[str, Any] | None = None) -> None:
        self.lease = lease
        self.version = 1
        self.requests: list[tuple[str, str, Any]] = []
        self.is_silent = False

    async def __call__(self, request: Request, response: Response) -> None:
        body: dict[str, Any] = json.loads(request.body or b"{}")
        self.requests.append((request.method, request.path, body))
        if self.is_silent:
            await asyncio.sleep(10)
        if request.path.endswith("/events"):
            await response.send_json(201, body)
            return
        if request.method != "GET":
            version = body["metadata"].get("resourceVersion")
            if request.method == "PUT" and version != str(self.version):
                await response.send_json(409, {"kind": "Status", "code": 409, "reason": "Conflict"})
                return
            self.version += 1
            self.lease = {**body, "metadata": {**body["metadata"], "uid": "u", "resourceVersion": str(self.version)}}
        if self.lease is None:
            await response.send_json(404, {"kind": "Status", "code": 404, "reason": "NotFound"})
        else:
            await response.send_json(200, self.lease)


def with_lock(server: LeaseServer, test: Callable[[LeaseLock], Awaitable[None]], answer_seconds: float = 5.0) -> None:
    async def main() -> None:
        async with http_server(server) as url, KubeClient(load_credentials(master=url)) as client:
            await test(
                LeaseLock(
                    client,
                    "locks",
                    "web",
                    "host_1",
                    answer_seconds=answer_seconds,
                    component="default-scheduler",
                    clock_ns=lambda: 1_700_000_000_123_456_789,
                )
            )

    asyncio.run(main())


RECORD = LeaseRecord("host_1", 15, "2023-11-14T22:13:20.123456Z", "2023-11-14T22:13:20.123456Z", 0)


def test_a_lease_is_created_and_renewed() -> None:
    server = LeaseServer()

    async def test(lock: LeaseLock) -> None:
        assert await lock.get() is None
        await lock.create(RECORD)
        later = msgspec.structs.replace(RECORD, renew_time=lock.now())
        await lock.update(later)
        assert await lock.get() == later

    with_lock(server, test)
    path = "/apis/coordination.k8s.io/v1/namespaces/locks/leases"
    assert [(method, where) for method, where, _ in server.requests] == [
        ("GET", f"{path}/web"),
        ("POST", path),
        ("PUT", f"{path}/web"),
        ("GET", f"{path}/web"),
    ]
    assert server.requests[1][2]["spec"] == {
        "holderIdentity": "host_1",
        "leaseDurationSeconds": 15,
        "acquireTime": "2023-11-14T22:13:20.123456Z",
        "renewTime": "2023-11-14T22:13:20.123456Z",
        "leaseTransitions": 0,
    }


def test_a_write_keeps_what_others_have_put_into_the_lease() -> None:
    others = {"labels": {"team": "a"}, "finalizers": ["example.com/keep"], "name": "web", "resourceVersion": "1"}
    server = LeaseServer({"metadata": others, "spec": {"holderIdentity": None, "strategy": "OldestEmulationVersion"}})

    async def test(lock: LeaseLock) -> None:
        assert await lock.get() == LeaseRecord("", 0, "", "", 0)
        await lock.update(RECORD)

    with_lock(server, test)
    assert server.lease is not None
    assert server.lease["metadata"].items() >= {"labels": {"team": "a"}, "finalizers": ["example.com/keep"]}.items()
    assert server.lease["spec"]["strategy"] == "OldestEmulationVersion"
    assert server.lease["spec"]["holderIdentity"] == "host_1"


def test_a_lease_that_another_has_written_is_not_overwritten() -> None:
    server = LeaseServer()

    async def test(lock: LeaseLock) -> None:
        await lock.create(RECORD)
        server.version += 1
        with pytest.raises(ApiError, match="409"):
            await lock.update(RECORD)

    with_lock(server, test)


def test_a_lease_that_is_no_lease_is_an_error() -> None:
    server = LeaseServer({"metadata": {}, "spec": {"holderIdentity": 1}})

    async def test(lock: LeaseLock) -> None:
        with pytest.raises(InvalidAnswerError, match="Expected `str`, got `int`"):
            await lock.get()

    with_lock(server, test)


def test_an_api_server_that_does_not_answer_is_given_up() -> None:
    server = LeaseServer()
    server.is_silent = True

    async def test(lock: LeaseLock) -> None:
        with pytest.raises(SilentError, match=r"longer than 0\.05 s"):
            await lock.get()

    with_lock(server, test, answer_seconds=0.05)


def test_an_event_says_who_leads() -> None:
    server = LeaseServer()

    async def test(lock: LeaseLock) -> None:
        await lock.create(RECORD)
        await lock.record_event("became leader")

    with_lock(server, test)
    method, path, event = server.requests[-1]
    assert (method, path) == ("POST", "/api/v1/namespaces/locks/events")
    assert event["metadata"] == {"namespace": "locks", "name": "web.17979cfe3d85cd15"}
    assert event["involvedObject"] == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "namespace": "locks",
        "name": "web",
        "uid": "u",
        "resourceVersion": "2",
    }
    assert (event["type"], event["reason"], event["message"]) == ("Normal", "LeaderElection", "host_1 became leader")
    assert event["source"] == {"component": "default-scheduler"}
    assert (event["firstTimestamp"], event["lastTimestamp"], event["count"]) == (*["2023-11-14T22:13:20Z"] * 2, 1)

"""The whole service, in front of an API server that leaves some requests unanswered, and puts others off."""

import asyncio
import json
import logging
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from extender_service.command.serve.serve import run_service
from extender_service.config.release import NEWEST_MINOR
from tests.support.serve_options import serve_options
from tests.support.servers.http_server import Request, Response, http_server

LEASE = ("kube-system", "lease")
NODE = {"metadata": {"name": "a", "uid": "a"}, "status": {"allocatable": {"cpu": "100", "pods": "1000"}}}


class ApiServer:
    """Has one node, and any pod that is asked for.

    Pods whose names begin with "slow" are not bound until `go_on`. The first request to bind one whose name begins with
    "retry" is put off for `retry_after` seconds. "retry-done" is bound all the same, and "retry-elsewhere" is bound to
    another node meanwhile.
    """

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.held = 0
        self.tries: Counter[str] = Counter()
        self.retry_after = "0"
        self.holder = f"{socket.gethostname()}_1"
        self.bound = {"retry-done": "a", "retry-elsewhere": "b"}

    async def __call__(self, request: Request, response: Response) -> None:
        *_, kind, name = request.path.split("/")
        if "watch" in request.query:
            await response.start_chunks()
            await asyncio.sleep(3600)
        elif "limit" in request.query:
            items = [NODE] if name == "nodes" else []
            await response.send_json(200, {"metadata": {"resourceVersion": "1"}, "items": items})
        elif name == "version":
            await response.send_json(200, {"major": "1", "minor": str(NEWEST_MINOR)})
        elif kind == "leases":
            await response.send_json(200, {"spec": {"holderIdentity": self.holder}})
        elif name == "binding":
            if kind.startswith("slow"):
                self.held += 1
                await self.go_on.wait()
            self.tries[kind] += 1
            if kind.startswith("retry") and self.tries[kind] == 1:
                await response.send_json(503, {"reason": "ServiceUnavailable"}, {"Retry-After": self.retry_after})
            elif kind in self.bound:
                await response.send_json(409, {"reason": "Conflict", "message": "it is bound already"})
            else:
                await response.send_json(201, {"kind": "Status"})
        else:
            node = self.bound.get(name, "") if self.tries[name] else ""
            metadata = {"name": name, "namespace": "ns", "uid": name}
            await response.send_json(200, {"metadata": metadata, "spec": {"nodeName": node}})


class Service:
    """The service, and what kube-scheduler asks of it."""

    def __init__(self, http: httpx.AsyncClient, url: str) -> None:
        self._http = http
        self._url = url

    async def call(self, verb: str, body: Any) -> Any:
        return (await self._http.post(f"{self._url}/{verb}", content=json.dumps(body), timeout=60)).json()

    async def filter(self) -> str:
        answer = await self.call("filter", {"Pod": {"metadata": {"name": "p", "uid": "p"}}, "NodeNames": ["a"]})
        return str(answer["Error"])

    async def bind(self, name: str) -> str:
        return str(
            (await self.call("bind", {"PodName": name, "PodNamespace": "ns", "PodUID": name, "Node": "a"}))["Error"]
        )


@asynccontextmanager
async def serving(
    api_server: ApiServer, caplog: pytest.LogCaptureFixture, leader_lease: tuple[str, str] | None = None
) -> AsyncIterator[Service]:
    async with asyncio.timeout(60), http_server(api_server) as master, httpx.AsyncClient(trust_env=False) as http:
        task = asyncio.create_task(run_service(serve_options([], master=master, leader_lease=leader_lease)))
        while not (url := next((vars(each)["url"] for each in caplog.records if "url" in vars(each)), "")):
            await asyncio.sleep(0.01)
        service = Service(http, url)
        while await service.filter():
            await asyncio.sleep(0.01)
        try:
            yield service
        finally:
            api_server.go_on.set()
            os.kill(os.getpid(), signal.SIGTERM)
            await task


def test_binds_that_are_slow_hold_up_neither_others_nor_the_reading_of_the_lease(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        api_server = ApiServer()
        async with serving(api_server, caplog, LEASE) as service, asyncio.TaskGroup() as calls:
            slow = [calls.create_task(service.bind(f"slow-{number}")) for number in range(30)]
            while api_server.held < 30:
                await asyncio.sleep(0.01)
            # What was read of the lease counts for 2 s.
            held_until = time.monotonic() + 3.0
            while time.monotonic() < held_until:
                assert await service.bind("quick") == ""
                assert await service.filter() == ""
                await asyncio.sleep(0.05)
            api_server.go_on.set()
            assert [await call for call in slow] == [""] * 30

    with caplog.at_level(logging.INFO, "extender_service"):
        asyncio.run(main())


@pytest.mark.parametrize(
    ("pod", "error"),
    [
        ("retry-once", ""),
        ("retry-done", ""),
        ("retry-elsewhere", "pod ns/retry-elsewhere is already bound to b"),
    ],
)
def test_a_bind_that_is_put_off_is_repeated_and_a_conflict_is_settled_by_reading_the_pod(
    caplog: pytest.LogCaptureFixture, pod: str, error: str
) -> None:
    async def main() -> None:
        api_server = ApiServer()
        async with serving(api_server, caplog) as service:
            assert await service.bind(pod) == error
            assert api_server.tries[pod] == 2

    with caplog.at_level(logging.INFO, "extender_service"):
        asyncio.run(main())


def test_a_bind_that_is_put_off_is_not_repeated_once_the_lease_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        api_server = ApiServer()
        api_server.retry_after = "2"
        async with serving(api_server, caplog, LEASE) as service:
            binding = asyncio.create_task(service.bind("retry-once"))
            while not api_server.tries["retry-once"]:
                await asyncio.sleep(0.01)
            api_server.holder = "another_1"
            assert await binding == "binding ns/retry-once to a: not sent: the lease is held by another_1"
            assert api_server.tries["retry-once"] == 1

    with caplog.at_level(logging.INFO, "extender_service"):
        asyncio.run(main())

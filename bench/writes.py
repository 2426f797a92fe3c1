"""Measures what a write to the API server costs this process: python -m bench.writes.

CPU time for each binding and for each event, over TLS to a server in another process, which answers them unread. So the
figures are those of the client: its connections, HTTP and TLS, and what it makes of an answer.
"""

import asyncio
import multiprocessing
import ssl
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple, cast

import trustme
import uvloop

from bench.figures import Row
from bench.run import Run, main
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.kube.writing.event_recorder import MAX_QUEUED, EventRecorder, ObjectReference, Occurrence
from tests.support.servers.kubeconfig_files import write_kubeconfig

_BOUND = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}\n'
_AT_ONCE = (1, 32, 500)


class Cost(NamedTuple):
    """Microseconds of CPU time for each request, and the number of connections that they took."""

    microseconds: float
    connections: int


def run(the: Run) -> None:
    """Print a line for bindings at each number of requests at once, and one for events."""
    count = 200 if the.quick else 4000
    writes = {f"bindings, {at_once} at once": partial(_bind, count, at_once) for at_once in _AT_ONCE}
    writes["events"] = partial(_record, count)
    with _server(the.directory) as kubeconfig:
        rows = [_row(what, the.rounds, kubeconfig, write) for what, write in writes.items()]
    the.report.table("writes", f"CPU time for each request, of {count} over TLS", rows)


def _row(what: str, rounds: int, kubeconfig: Path, write: Callable[[KubeClient], Awaitable[float]]) -> Row:
    costs = [uvloop.run(_cost(kubeconfig, write)) for _ in range(rounds)]
    microseconds = [cost.microseconds for cost in costs]
    return {
        "requests": what,
        "us": statistics.median(microseconds),
        "least": min(microseconds),
        "most": max(microseconds),
        "connections": max(cost.connections for cost in costs),
    }


async def _cost(kubeconfig: Path, write: Callable[[KubeClient], Awaitable[float]]) -> Cost:
    async with KubeClient(load_credentials(kubeconfig)) as client:
        await _bind(100, 1, client)
        microseconds = await write(client)
        return Cost(microseconds, (await client.exchange("GET", "/connections"))["count"])


async def _bind(count: int, at_once: int, client: KubeClient) -> float:
    numbers = iter(range(count))

    async def bind_next() -> None:
        for number in numbers:
            await client.bind("default", f"pod-{number}", f"uid-{number}", "node-1")

    began = time.process_time()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(at_once):
            tasks.create_task(bind_next())
    return (time.process_time() - began) * 1e6 / count


async def _record(count: int, client: KubeClient) -> float:
    recorder = EventRecorder(client, "default-scheduler")
    running = asyncio.create_task(recorder.run())
    began = time.process_time()
    for first in range(0, count, MAX_QUEUED):
        for number in range(first, min(first + MAX_QUEUED, count)):
            pod = ObjectReference("v1", "Pod", "default", f"pod-{number}", f"uid-{number}", "1")
            note = f"Successfully assigned default/{pod.name} to node-1"
            recorder.record(Occurrence(pod, "Normal", "Scheduled", "Binding", note))
        await recorder.drain(60.0)
    spent = time.process_time() - began
    running.cancel()
    await asyncio.wait([running])
    if recorder.counts["written"] != count:
        raise RuntimeError(f"not all of {count} events were written: {dict(recorder.counts)}")
    return spent * 1e6 / count


@contextmanager
def _server(directory: Path) -> Iterator[Path]:
    """Run the server; yield a kubeconfig for it."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(directory / "ca.crt")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(directory / "server.pem")
    spawn = multiprocessing.get_context("spawn")
    ours, its = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(its, directory / "server.pem"), daemon=True)
    process.start()
    its.close()
    try:
        url = f"https://127.0.0.1:{ours.recv()}"
        cluster = {"server": url, "certificate-authority": str(directory / "ca.crt")}
        yield write_kubeconfig(directory / "writes.kubeconfig", cluster=cluster, user={"token": "x" * 900})
    finally:
        ours.close()  # which ends it
        process.join()


def _serve(parent: Connection, certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(_Answers, "127.0.0.1", 0, ssl=context)
        parent.send(server.sockets[0].getsockname()[1])
        ended = asyncio.Event()
        loop.add_reader(parent.fileno(), ended.set)
        await ended.wait()

    uvloop.run(serve())


class _Answers(asyncio.Protocol):
    """One connection. Answers a binding with a Status, and anything else that is written with what was sent."""

    opened = 0

    def __init__(self) -> None:
        self._received = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        _Answers.opened += 1

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, rest = self._received.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
        if not end or len(rest) < length:
            return
        self._received = b""
        target = head.split(b" ", 2)[1]
        if target == b"/connections":
            rest = b'{"count": %d}' % (_Answers.opened)
            _Answers.opened = 0
        elif target.endswith(b"/binding"):
            rest = _BOUND
        self._transport.write(
            b"HTTP/1.1 201 Created\r\nAudit-Id: 6d0cb9b4-63d0-4b1f-b7b8-4a3b1e4d9f5e\r\n"
            b"Cache-Control: no-cache, private\r\nContent-Type: application/json\r\n"
            b"X-Kubernetes-Pf-Flowschema-Uid: 4e1a5b1c-7d2e-4c8b-9b7e-2f0f6f5f2b8e\r\n"
            b"X-Kubernetes-Pf-Prioritylevel-Uid: 0f6b0f9e-3c1d-4f5e-8a7b-6c5d4e3f2a1b\r\n"
            b"Date: Mon, 23 Nov 2026 14:00:00 GMT\r\nContent-Length: %d\r\n\r\n%b" % (len(rest), rest)
        )


if __name__ == "__main__":
    main("python -m bench.writes", __doc__, [run])

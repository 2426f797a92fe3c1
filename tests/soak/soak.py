"""One soak: an API server and a scheduler here, the service in a process of its own."""

import asyncio
import time
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from bench.programs import Server, resident_mib, service
from extender_service.kube.resources.api_resources import NODES, PODS
from tests.soak import figures
from tests.soak.api_server import ApiServer
from tests.soak.churn import Churn
from tests.soak.figures import Figure, Sample, Table
from tests.soak.scheduler import Scheduler
from tests.support.servers.http_server import http_server

_START_SECONDS = 300.0
# Events are sent so often, as many as are due.
_TICK_SECONDS = 0.02
_SAMPLE_SECONDS = 5.0
# How long expectations about pods that no watch shows may last, and a while.
_EXPECTED_SECONDS = 7.0


class Size(NamedTuple):
    """How long and how much; events and calls are those of a second."""

    minutes: float
    nodes: int
    pods: int
    events: float
    calls: float

    @property
    def settled_seconds(self) -> float:
        """When memory has settled, look-ups of fixed size full: after four minutes, or 2/5 of a shorter soak."""
        return min(240.0, self.minutes * 60 * 2 / 5)

    @property
    def window_seconds(self) -> float:
        """What is compared of the beginning and the end: a minute, or a quarter of a shorter soak."""
        return min(60.0, self.minutes * 60 / 4)


async def soak(size: Size, directory: Path, *, report: Callable[[str], object]) -> list[Figure]:
    """Run it; `report` is told how far it is."""
    churn = Churn(size.nodes, size.pods)
    churn.fill()
    api = ApiServer(churn)
    async with http_server(api) as url, _service(directory, url) as server:
        counts = f"{len(churn.of(NODES))} nodes and {len(churn.of(PODS))} pods"
        report(f"the service knows {counts}, {server.resident_mib:.0f} MiB")
        scheduler = Scheduler(server.url, churn, api)
        seconds = size.minutes * 60
        sent = api.event_count
        begin = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            sampling = tasks.create_task(_sample(server, begin, seconds, scheduler, report))
            tasks.create_task(_churn(churn, api, size.events, seconds))
            tasks.create_task(scheduler.run(size.calls, seconds))
        end = time.perf_counter()
        sent = api.event_count - sent
        peak = await _tables(server)
        for event in churn.clear():
            api.tell(event)
        await _know_all(server, api)
        await asyncio.sleep(_EXPECTED_SECONDS)
        after = await _tables(server)
        async with _service(directory, url) as fresh:
            before = await _tables(fresh)
        return [
            *figures.memory(sampling.result(), size.settled_seconds),
            figures.processor(sampling.result(), size.window_seconds),
            figures.pace("events", sent, end - begin, size.events),
            figures.pace("calls", len(scheduler.calls), end - begin, size.calls),
            Figure("what came of filter calls and bindings", _counts(scheduler)),
            Figure(
                "calls that ended in an error", str(scheduler.answers["error"]), "0", not scheduler.answers["error"]
            ),
            *figures.latency(scheduler.calls, begin, end, size.window_seconds),
            *figures.tables(before, peak, after),
        ]


@asynccontextmanager
async def _service(directory: Path, url: str) -> AsyncIterator[Server]:
    """A service that has been synced."""
    with service(directory, f"--master={url}", "--mode=replace", wait_ready=False) as server:
        async with asyncio.timeout(_START_SECONDS):
            while not await asyncio.to_thread(server.is_ready):
                await asyncio.sleep(0.2)
        yield server


async def _churn(churn: Churn, api: ApiServer, events_a_second: float, seconds: float) -> None:
    """Make changes at this pace, together with those that the scheduler makes."""
    begin, already = time.perf_counter(), api.event_count
    while (passed := time.perf_counter() - begin) < seconds:
        while api.event_count - already < passed * events_a_second:
            api.tell(churn.step())
        await asyncio.sleep(_TICK_SECONDS)


async def _sample(
    server: Server, begin: float, seconds: float, scheduler: Scheduler, report: Callable[[str], object]
) -> list[Sample]:
    """Look at the service's memory and processor time now and then."""
    samples: list[Sample] = []
    every = min(_SAMPLE_SECONDS, seconds / 20)
    while (at := time.perf_counter() - begin) < seconds:
        samples.append(Sample(at, resident_mib(server.pid) * 1024, server.cpu_seconds))
        if len(samples) % 6 == 1:
            report(f"{at:5.0f} s: {samples[-1].resident_kib:.0f} KiB, {len(scheduler.calls)} calls")
        await asyncio.sleep(every)
    return samples


async def _know_all(server: Server, api: ApiServer) -> None:
    """Wait until the service has been told of everything."""
    async with asyncio.timeout(_START_SECONDS):
        while await asyncio.to_thread(server.metric, "extender_service_watch_events_total") < api.event_count:
            await asyncio.sleep(0.2)


async def _tables(server: Server) -> dict[str, Table]:
    text = await asyncio.to_thread(_read, f"{server.url}/metrics")
    values = {
        family.name: {sample.labels["table"]: int(sample.value) for sample in family.samples}
        for family in text_string_to_metric_families(text)
        if family.name in ("extender_service_table_entries", "extender_service_table_limit")
    }
    limits = values["extender_service_table_limit"]
    return {
        name: Table(entries, limits.get(name)) for name, entries in values["extender_service_table_entries"].items()
    }


def _read(url: str) -> str:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=60) as answer:
        text: str = answer.read().decode()
        return text


def _counts(scheduler: Scheduler) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(scheduler.answers.items()))

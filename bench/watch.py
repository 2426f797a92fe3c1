"""Measures listing and watching a cluster: python -m bench.watch.

- Time, CPU time and memory to load the cluster from JSON, compared with kube-scheduler's informers and cache
  (`kubecycle mem`). Memory is read as soon as all is loaded, and again when the program is idle: before that,
  `kubecycle` collects its garbage, mostly of decoding, and returns free memory to the system. The target is for idle
  programs.
- The longest filter call while the service loads, and while it lists everything again
- The rate at which it applies watch events

The API server is `stubapi`, which sends lists in the requested pages.
"""

import itertools
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple, Self

from bench.caller import Caller
from bench.figures import Row, alternately, at_least, at_most
from bench.programs import ClusterSize, Server, service
from bench.run import NEEDS_GO, Run, main
from tests.e2e.support.waiting import wait_until

_WAIT_SECONDS = 300.0
# The peer answers no probes while it loads.
_PROBE_SECONDS = 0.5
# A service that is ready moves its memory into huge pages first, which takes a second.
_SETTLE_SECONDS = 3.0
_LISTS = 'extender_service_watch_lists_total{resource="pods"}'
_OPENED = 'extender_service_watch_opened_total{resource="pods"}'
_EVENTS = 'extender_service_watch_events_total{resource="pods"'


class Load(NamedTuple):
    """One load of the cluster: seconds until ready, CPU time of the program, its memory then, and when it is idle."""

    seconds: float
    cpu_seconds: float
    resident_mib_loaded: float
    resident_mib_idle: float

    @classmethod
    def of_peer(cls, line: Mapping[str, Any]) -> Self:
        """Read a line of `kubecycle mem`."""
        return cls(line["sync_s"], line["cpu_s"], line["rss_MiB"], line["rss_idle_MiB"])


class Churn(NamedTuple):
    """Watch events a second, CPU time of one event, and the longest call in milliseconds while listing again."""

    events_a_second: float
    cpu_microseconds: float
    longest_call: float


def run(the: Run) -> None:
    """Print a table of loading and memory, and one of watching."""
    if the.peers is None:
        the.report.note("watch", NEEDS_GO)
        return
    peers, size = the.peers, ClusterSize(200, 30) if the.quick else ClusterSize(5000, 30)
    the.report.progress("watch", f"{size.nodes} nodes")
    with peers.api(size, "json") as api:
        body = peers.body("plain-rs", size.nodes)
        ours, theirs = alternately(the.rounds, lambda: _load(the, api), lambda: Load.of_peer(peers.memory(api, size)))
        pauses = [_longest_call_while_loading(the, api, body) for _ in range(the.rounds)]
        with service(the.directory, f"--master={api.url}", "--mode=replace") as server:
            churns = [_churn(api, server, body, pods=500 if the.quick else 10000) for _ in range(the.rounds)]
    cluster = f"{size.nodes} nodes, {size.nodes * size.pods_per_node} pods, from JSON"
    the.report.table("watch", f"loading {cluster}; the service, kube-scheduler", loading(ours, theirs))
    the.report.table("watch", cluster, _watching(pauses, churns))


def loading(ours: Sequence[Load], theirs: Sequence[Load]) -> list[Row]:
    """Return a row for each figure of a load: the medians, and how many times less the service takes."""
    rows: list[Row] = []
    targets = {"seconds": None, "cpu_seconds": 6.0, "resident_mib_loaded": None, "resident_mib_idle": 5.0}
    for figure, target in targets.items():
        service, peer = (statistics.median(getattr(load, figure) for load in loads) for loads in (ours, theirs))
        rows.append(
            {
                "figure": figure.replace("_", " "),
                "service": service,
                "peer": peer,
                **at_least("times less", peer / service, target),
            }
        )
    return rows


def _watching(pauses: list[float], churns: list[Churn]) -> list[Row]:
    typical = Churn(*map(statistics.median, zip(*churns, strict=True)))
    return [
        {"figure": "longest filter call while loading", **at_most("value", statistics.median(pauses), 50)},
        {"figure": "longest filter call while listing again", **at_most("value", typical.longest_call, 50)},
        {"figure": "events of pods applied a second", **at_least("value", typical.events_a_second, 20_000)},
        {"figure": "own processor time of an event, microseconds", **at_most("value", typical.cpu_microseconds, 50)},
    ]


def _load(the: Run, api: Server) -> Load:
    started = time.perf_counter()
    with service(the.directory, f"--master={api.url}", wait_ready=False) as server:
        cpu = server.cpu_seconds
        wait_until(server.is_ready, "the service to know the cluster", _WAIT_SECONDS, _PROBE_SECONDS)
        loaded = time.perf_counter() - started, server.cpu_seconds - cpu, server.resident_mib
        time.sleep(_SETTLE_SECONDS)
        return Load(*loaded, server.resident_mib)


def _longest_call_while_loading(the: Run, api: Server, body: bytes) -> float:
    with ExitStack() as stack:
        server = stack.enter_context(service(the.directory, f"--master={api.url}", "--mode=replace", wait_ready=False))
        caller = stack.enter_context(Caller(server, itertools.repeat(body)))
        wait_until(server.is_ready, "the service to know the cluster", _WAIT_SECONDS)
    return max(caller.milliseconds)


def _churn(api: Server, server: Server, body: bytes, pods: int) -> Churn:
    """Send all events in the life of so many pods. Then end all watches, so the service lists again during calls."""
    before, cpu = server.metric(_EVENTS), server.cpu_seconds
    sent = json.loads(api.post(f"/stub/events?pods={pods}"))
    expected, written = before + sent["events"], time.perf_counter()
    wait_until(lambda: server.metric(_EVENTS) >= expected, "the service to have applied all events", _WAIT_SECONDS)
    seconds = sent["seconds"] + time.perf_counter() - written  # events may still be in the sockets' buffers
    cpu = server.cpu_seconds - cpu
    lists, opened = server.metric(_LISTS), server.metric(_OPENED)

    def has_listed_again() -> bool:
        return server.metric(_LISTS) > lists and server.metric(_OPENED) > opened

    with Caller(server, itertools.repeat(body)) as caller:
        api.post("/stub/relist")
        wait_until(has_listed_again, "the service to have listed again", _WAIT_SECONDS)
    return Churn(sent["events"] / seconds, cpu / sent["events"] * 1e6, max(caller.milliseconds))


if __name__ == "__main__":
    main("python -m bench.watch", __doc__, [run])

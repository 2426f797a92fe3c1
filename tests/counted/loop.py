"""The loop of `schedule`, from the lines of the watch to the bytes of the requests: pods are decided about and bound.

The API server answers at once, and without a network. What asyncio executes counts, too; its callbacks stand for what
uvloop does in C. The log, at level info, and the metrics count, too, except the times of single plugins.
"""

import asyncio
import io
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from random import Random
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple, Self
from unittest.mock import patch

import msgspec
from prometheus_client import CollectorRegistry

from bench import synthetic, unlike
from extender_service.cluster.sources.object_api import ObjectApi
from extender_service.cluster.sources.stores import PodStore
from extender_service.cluster.state.cluster import Cluster
from extender_service.config.loading import default_config
from extender_service.framework import profile
from extender_service.framework.handle import Handle
from extender_service.framework.profiles import Profiles
from extender_service.framework.queueing_hints import queueing_hints
from extender_service.framework.registry.registry import Registry
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.connection.connector import Connector
from extender_service.kube.connection.event_stream import EventStream
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.kube.parsing.decoder import Decoder
from extender_service.kube.resources.pods_by_need import pods_by_need
from extender_service.kube.watching.reflector import Reflector
from extender_service.kube.writing.event_recorder import EventRecorder
from extender_service.observability.framework_metrics import FrameworkMetrics
from extender_service.observability.logs import TextFormatter
from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE
from extender_service.queue.scheduling_queue import SchedulingQueue
from extender_service.scheduler.attempt import Attempts
from extender_service.scheduler.event_handlers import EventHandlers
from extender_service.scheduler.metrics.prometheus import SchedulerMetrics
from extender_service.scheduler.nominated_pods import nominations
from extender_service.scheduler.pod_lister import PodLister
from extender_service.scheduler.scheduler import Scheduler
from extender_service.scheduler.time_limit import TimeLimit
from extender_service.scheduling.engine import Engine
from tests.counted.bytecodes import COUNTED, STILL, WARM_UP, executed, finish, typical
from tests.counted.pods import PODS_PER_NODE
from tests.support.clusters.scheduler_world import NAME

_AT_ONCE = 20
_ROUNDS = WARM_UP + COUNTED
# The head has as many bytes as the API server's.
_ANSWER = (
    b"HTTP/1.1 201 Created\r\nAudit-Id: 6d0cb9b4-63d0-4b1f-b7b8-4a3b1e4d9f5e\r\nCache-Control: no-cache, private\r\n"
    b"Content-Type: application/json\r\nX-Kubernetes-Pf-Flowschema-Uid: 4e1a5b1c-7d2e-4c8b-9b7e-2f0f6f5f2b8e\r\n"
    b"X-Kubernetes-Pf-Prioritylevel-Uid: 0f6b0f9e-3c1d-4f5e-8a7b-6c5d4e3f2a1b\r\n"
    b"Date: Mon, 23 Nov 2026 14:00:00 GMT\r\nContent-Length: 79\r\n\r\n"
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'
)

Step = Literal["taken in", "placed", "seen bound"]


class Loop(NamedTuple):
    """What one pod costs: bytecodes of each step, requests, and bytes sent, seen in the watch, and decoded."""

    steps: Mapping[Step, int]
    requests: float
    sent_bytes: int
    seen_bytes: int
    decoded_bytes: int


def step(which: Step, nodes: int, pod_class: str = "plain") -> int:
    """Count one step of a pod of a class of bench/synthetic.py, of some that come at once."""
    return typical(loop.steps[which] for loop in loops(nodes, pod_class))


def step_unlike(which: Step, nodes: int, pod_class: str) -> int:
    """Count one step of a pod of which no two are alike, in the cluster of bench/unlike.py."""
    manifests = unlike.pending_manifests(pod_class)
    with Program(unlike.cluster(unlike.manifests(nodes, PODS_PER_NODE))) as program:
        rounds = [program.place([_waiting(next(manifests)) for _ in range(_AT_ONCE)]) for _ in range(_ROUNDS)]
    return typical(loop.steps[which] for loop in rounds)


@cache
def loops(nodes: int, pod_class: str = "plain") -> Sequence[Loop]:
    """Return what a pod costs, several times, while more and more are placed."""
    with Program(synthetic.cluster(nodes, PODS_PER_NODE)) as program:
        return [
            program.place([_manifest(pod_class, first + number) for number in range(_AT_ONCE)])
            for first in range(0, _ROUNDS * _AT_ONCE, _AT_ONCE)
        ]


class Program:
    """The parts of `schedule`, and the API server's part."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._network = _Network()
        self._client = KubeClient(load_credentials(master="http://127.0.0.1:1"))
        api = ObjectApi(self._client)
        registry = CollectorRegistry()
        metrics = SchedulerMetrics(registry, lambda: 0.0, cluster.rules)
        handle = Handle(cluster, api, random=Random(1))
        profiles = Registry(IN_TREE, rules=cluster.rules).profiles(default_config(ARGS_TYPES, cluster.rules), handle)
        for each in profiles.values():
            each.recorder = FrameworkMetrics(registry)
        pending = PodLister()
        self._queue = SchedulingQueue(
            profiles,
            {name: queueing_hints(profile.rejecting, cluster.rules) for name, profile in profiles.items()},
            cluster.rules,
            clock=lambda: 0.0,
            metrics=metrics,
            is_pending=pending.__contains__,
            namespace_labels=cluster.workloads.namespace_labels,
        )
        engine = Engine(cluster, Profiles(profiles), api, nominated_for=nominations(cluster, self._queue))
        self._events = EventRecorder(self._client, NAME)
        self._scheduler = Scheduler(
            Attempts(engine, TimeLimit(handle.clock), metrics=metrics),
            engine,
            self._queue,
            pending,
            api,
            self._events.record,
            handle.preemptions,
            sleep=asyncio.sleep,
            wall_clock=lambda: 0.0,
            metrics=metrics,
        )
        pods = pods_by_need([NAME])
        handlers = EventHandlers(cluster, self._queue, Profiles(profiles), pending, timing=metrics.event_timing)
        handler = handlers.handler(pods, PodStore(cluster))
        self._decoder = pods.frame_decoder
        self._reflector: Reflector[Any] = Reflector(self._client, pods, handler)

    def __enter__(self) -> Self:
        self._patches = ExitStack()
        self._patches.enter_context(patch.object(Connector, "open", self._network.open))
        # Which decisions are in the sample differs from round to round.
        self._patches.enter_context(patch.object(profile, "SAMPLED", 0.0))
        self._patches.enter_context(_logging())
        self._runner = asyncio.Runner()
        loop = self._runner.get_loop()
        self._running = [loop.create_task(self._scheduler.run()), loop.create_task(self._events.run())]
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._close())
        self._runner.close()
        self._patches.close()

    async def _close(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.wait(self._running)
        await self._scheduler.abandon()
        await self._client.__aexit__(None, None, None)

    def place(self, manifests: Sequence[Mapping[str, Any]]) -> Loop:
        """Let pods come, be placed and be seen bound."""
        requests, sent_bytes, count = self._network.requests, self._network.sent_bytes, len(manifests)
        with _decoding() as decoded:
            created = _lines("ADDED", manifests)
            taken_in = self._see(created) // count
            placed = executed(lambda: self._runner.run(self._settle())) // count
            bound = _lines("MODIFIED", [self._bound(manifest) for manifest in manifests])
            seen_bound = self._see(bound) // count
        return Loop(
            {"taken in": taken_in, "placed": placed, "seen bound": seen_bound},
            (self._network.requests - requests) / count,
            (self._network.sent_bytes - sent_bytes) // count,
            len(created + bound) // count,
            sum(decoded) // count,
        )

    def fail(self, manifest: Mapping[str, Any]) -> int:
        """Let a pod come that has to wait; return what its attempt executes. The pod goes again."""
        self._see(_lines("ADDED", [manifest]))
        count = executed(lambda: self._runner.run(self._settle()))
        assert self._cluster.placements.get(manifest["metadata"]["uid"]) is None, "placed"
        self._see(_lines("DELETED", [manifest]))
        return count

    def _see(self, lines: bytes) -> int:
        async def chunks() -> AsyncIterator[bytes]:
            yield lines

        async def follow() -> None:
            async for change in EventStream(chunks(), self._decoder, clock=STILL):
                self._reflector._take(change)

        return executed(lambda: finish(follow()))

    async def _settle(self) -> None:
        """Let the scheduler work until all is written."""
        while self._queue.pending_counts()["active"] or self._scheduler.unfinished_count:
            await asyncio.sleep(0)
        await self._events.drain(60.0)

    def _bound(self, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
        metadata, spec = manifest["metadata"], manifest["spec"]
        placement = self._cluster.placements.get(metadata["uid"])
        assert placement is not None, "not placed"
        condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        return {
            **manifest,
            "metadata": {**metadata, "resourceVersion": "20000"},
            "spec": {**spec, "nodeName": placement.node_name},
            "status": {"phase": "Pending", "conditions": [condition]},
        }


class _Network:
    """Connections to an API server that answers in the next turn."""

    def __init__(self) -> None:
        self.requests = self.sent_bytes = 0

    async def open(self) -> SimpleNamespace:
        """Open a connection, as Connector does."""
        return SimpleNamespace(transport=_Wire(self), should_close=False)


class _Wire(asyncio.Transport):
    def __init__(self, network: _Network) -> None:
        super().__init__()
        self._network = network

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._network.requests += 1
        self._network.sent_bytes += len(data)
        asyncio.get_running_loop().call_soon(self._protocol.data_received, _ANSWER)

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)


@contextmanager
def _decoding() -> Iterator[list[int]]:
    """Collect how many bytes each call of a decoder reads."""
    sizes: list[int] = []
    decode = Decoder.decode

    def noted(decoder: Decoder[Any], data: bytes | bytearray | msgspec.Raw) -> Any:
        sizes.append(len(bytes(data)))
        return decode(decoder, data)

    with patch.object(Decoder, "decode", noted):
        yield sizes


@contextmanager
def _logging() -> Iterator[None]:
    """Write the log to a buffer, as `configure_logging` writes it to standard error."""
    logger, handler = logging.getLogger("extender_service"), logging.StreamHandler(io.StringIO())
    handler.setFormatter(TextFormatter())
    with (
        patch.multiple(logger, handlers=[handler], level=logging.INFO, propagate=False),
        patch.multiple(logging, logThreads=False, logProcesses=False, logMultiprocessing=False),
    ):
        logger.manager._clear_cache()  # type: ignore[attr-defined]  # of enabled levels
        yield
    logger.manager._clear_cache()  # type: ignore[attr-defined]


def _lines(event: str, manifests: Sequence[Mapping[str, Any]]) -> bytes:
    return b"".join(msgspec.json.encode({"type": event, "object": manifest}) + b"\n" for manifest in manifests)


def _manifest(pod_class: str, number: int) -> Mapping[str, Any]:
    pod = synthetic.pending_manifest(pod_class)
    name = f"{pod['metadata']['name']}-{number}"
    return _waiting({**pod, "metadata": {**pod["metadata"], "name": name, "uid": f"uid-{name}"}})


def _waiting(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = {**pod["metadata"], "resourceVersion": "10000"}
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "schedulerName": NAME}}

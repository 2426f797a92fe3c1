"""Metrics for Prometheus.

Calls are counted as they happen; the cluster and the watches are read when somebody asks (see state_metrics). No label
has a value that a caller can choose.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram, Info
from prometheus_client import generate_latest as encode_text
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS
from prometheus_client.openmetrics.exposition import generate_latest as encode_openmetrics

from extender_service.cluster.debugging.table_sizes import TableSize
from extender_service.cluster.state.cluster import Cluster
from extender_service.extender.overload.overload import Limit
from extender_service.extender.reporting.observation import Observation, Verb
from extender_service.kube.watching.reflector import WatchState
from extender_service.observability.framework_metrics import FrameworkMetrics
from extender_service.observability.state_metrics import ClusterCollector, CountCollector, WatchCollector

Result = Literal["ok", "refused", "error"]

_TEXT = "text/plain; version=0.0.4; charset=utf-8"

# From a call about a few nodes to one that has outlasted kube-scheduler's patience (5 s by default).
_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class _CallMetrics(NamedTuple):
    """The metrics of one verb; looking labels up for each call would cost more than counting."""

    requests: Mapping[Result, Counter]
    seconds: Histogram
    asked: Counter
    passed: Counter


class Metrics:
    """All metrics of one service, and those of the process.

    `watches` are by resource, such as nodes; `events` counts events for users by what became of them, `refusals`
    connections by why they were refused, `decisions_ahead` decisions made ahead by what became of them. `own_tables`
    returns the sizes of a program's own tables. `framework` is to be attached to the profiles.
    """

    def __init__(
        self,
        version: str,
        cluster: Cluster,
        watches: Mapping[str, WatchState],
        events: Mapping[str, int] = MappingProxyType({}),
        refusals: Mapping[str, int] = MappingProxyType({}),
        decisions_ahead: Mapping[str, int] = MappingProxyType({}),
        own_tables: Callable[[], Iterable[TableSize]] = tuple,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry = CollectorRegistry()
        Info("extender_service_build", "The release that runs.", registry=registry).info({"version": version})
        requests = Counter(
            "extender_service_requests",
            "Calls by what came of them: ok; refused, as no node passed; error.",
            ["verb", "result"],
            registry=registry,
        )
        seconds = Histogram(
            "extender_service_request_duration_seconds",
            "Time from the arrival of a call to its answer.",
            ["verb"],
            buckets=_SECONDS,
            registry=registry,
        )
        asked = Counter("extender_service_asked_nodes", "Nodes asked about.", ["verb"], registry=registry)
        passed = Counter("extender_service_passed_nodes", "Nodes asked about that passed.", ["verb"], registry=registry)
        self._calls = {
            verb: _CallMetrics(
                {result: requests.labels(verb, result) for result in get_args(Result)},
                seconds.labels(verb),
                asked.labels(verb),
                passed.labels(verb),
            )
            for verb in get_args(Verb)
        }
        second_looks = Counter(
            "extender_service_second_looks",
            "Filter calls that waited a moment for the watch before refusing every node, by what came of them.",
            ["result"],
            registry=registry,
        )
        self._second_looks = {result: second_looks.labels(result) for result in get_args(Result)}
        limited = Counter(
            "extender_service_limited_requests",
            "Calls that ended with an error since they exceeded a limit, by the limit.",
            ["verb", "limit"],
            registry=registry,
        )
        self._limited = {
            (verb, limit): limited.labels(verb, limit) for verb in get_args(Verb) for limit in get_args(Limit) if limit
        }
        self.framework = FrameworkMetrics(registry)
        registry.register(ClusterCollector(cluster, own_tables))
        registry.register(WatchCollector(watches, clock))
        registry.register(
            CountCollector(
                "extender_service_events",
                "Events for users by what became of them: written, failed, or dropped as there were too many.",
                "result",
                events,
            )
        )
        registry.register(
            CountCollector(
                "extender_service_refused_connections",
                "Connections refused before their first request, by the reason: certificate, name or protocol.",
                "reason",
                refusals,
            )
        )
        registry.register(
            CountCollector(
                "extender_service_decisions_ahead",
                "Decisions made before they were asked for: used, or unused as something had changed by then.",
                "result",
                decisions_ahead,
            )
        )
        # The library's own: metrics of the process, and those that users' plugins define as any program does.
        registry.register(REGISTRY)

    def observe(self, observation: Observation) -> None:
        """Count a call, and what its decision took."""
        self.framework.count()
        call = self._calls[observation.verb]
        result = _result(observation)
        call.requests[result].inc()
        call.seconds.observe(observation.seconds)
        call.asked.inc(observation.asked)
        call.passed.inc(observation.passed)
        if observation.limit:
            self._limited[observation.verb, observation.limit].inc()
        if observation.looked_again:
            self._second_looks[result].inc()

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics as they are now, and the content type: OpenMetrics where `accept` has it, else text."""
        self.framework.count()
        # Not the library's choose_encoder: it fails on versions that are no numbers.
        if "application/openmetrics-text" in accept:
            return encode_openmetrics(self._registry), OPENMETRICS  # type: ignore[no-untyped-call]
        return encode_text(self._registry), _TEXT


def _result(observation: Observation) -> Result:
    if observation.error:
        return "error"
    return "refused" if observation.asked and not observation.passed else "ok"

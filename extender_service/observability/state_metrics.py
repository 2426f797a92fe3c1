"""Metrics that a scrape reads from the state of the service."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from extender_service.caches import caches
from extender_service.cluster.amounts.dimensions import POD_COUNT
from extender_service.cluster.debugging.table_sizes import TableSize, table_sizes
from extender_service.cluster.state.cluster import Cluster
from extender_service.config.rules import Rules
from extender_service.kube.connection.sent_requests import BOUNDS_SECONDS, UNANSWERED, HostRequests
from extender_service.kube.watching.watch_state import WatchState

_BOUNDS = (*map(str, BOUNDS_SECONDS), "+Inf")


def _cache_size_names(rules: Rules) -> Iterator[str]:
    if not rules.old_cache_size_gone:
        yield "scheduler_scheduler_cache_size"
    if rules.cache_size_renamed:
        yield "scheduler_cache_size"


class ClusterCollector(Collector):
    """Sizes of the cluster state, of the caches, and of a program's `own_tables`."""

    def __init__(self, cluster: Cluster, own_tables: Callable[[], Iterable[TableSize]] = tuple) -> None:
        self._cluster = cluster
        self._own_tables = own_tables

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        cluster = self._cluster
        assumed = sum(placement.assumed for placement in cluster.placements)
        expected = len(cluster.placements) - assumed
        on_nodes = int(cluster.nodes.requested[POD_COUNT].sum())
        # updateMetrics in pkg/scheduler/internal/cache/cache.go: pods are those bound or assumed.
        for name in _cache_size_names(cluster.rules):
            cache = GaugeMetricFamily(
                name, "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.", labels=["type"]
            )
            cache.add_metric(["nodes"], cluster.node_count)
            cache.add_metric(["pods"], on_nodes - expected)
            cache.add_metric(["assumed_pods"], assumed)
            yield cache
        yield GaugeMetricFamily(
            "extender_service_expected_pods", "Pods that count on the node that this service chose for them.", expected
        )
        yield GaugeMetricFamily(
            "extender_service_known_pods", "Pods that the cluster is known to have, bound or not.", cluster.pod_count
        )
        entries = GaugeMetricFamily(
            "extender_service_table_entries",
            "Entries of the tables in which the cluster is kept; without a limit, they follow its objects.",
            labels=["table"],
        )
        limits = GaugeMetricFamily(
            "extender_service_table_limit", "The most entries of tables that have a limit.", labels=["table"]
        )
        for table in (*table_sizes(cluster), *self._own_tables()):
            entries.add_metric([table.name], table.entries)
            if table.limit is not None:
                limits.add_metric([table.name], table.limit)
        yield entries
        yield limits
        taken = GaugeMetricFamily(
            "extender_service_cache_bytes",
            "Upper estimate of the bytes that the entries of a cache take.",
            labels=["cache"],
        )
        most = GaugeMetricFamily(
            "extender_service_cache_limit_bytes", "The most bytes that a cache may take.", labels=["cache"]
        )
        for size in caches():
            taken.add_metric([size.name], size.size_bytes)
            most.add_metric([size.name], size.most_bytes)
        yield taken
        yield most


class WatchCollector(Collector):
    """How well each watch keeps up. `clock` must be the one that the states use."""

    def __init__(self, watches: Mapping[str, WatchState], clock: Callable[[], float]) -> None:
        self._watches = watches
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        now = self._clock()
        gauge, counter = GaugeMetricFamily, CounterMetricFamily
        yield self._family(gauge, "synced", "1 once the first list has been applied.", lambda state: state.synced)
        yield self._family(
            gauge,
            "stale_seconds",
            "Seconds since the API server was last heard of; while all is well, less than 13.",
            lambda state: max(0.0, now - state.current_at),
        )
        yield self._family(counter, "lists", "Lists begun.", lambda state: state.lists)
        yield self._family(
            counter, "relists", "Lists that an expired version made necessary.", lambda state: state.relists
        )
        yield self._family(counter, "opened", "Watches begun.", lambda state: state.watches)
        events = CounterMetricFamily("extender_service_watch_events", "Events received.", labels=["resource", "type"])
        for resource, state in self._watches.items():
            for event_type, count in sorted(state.events.items()):
                events.add_metric([resource, event_type], count)
        yield events

    def _family(
        self,
        kind: type[GaugeMetricFamily | CounterMetricFamily],
        name: str,
        documentation: str,
        value: Callable[[WatchState], float],
    ) -> Metric:
        family = kind(f"extender_service_watch_{name}", documentation, labels=["resource"])
        for resource, state in self._watches.items():
            family.add_metric([resource], value(state))
        return family


class RequestCollector(Collector):
    """What was sent to API servers, by host, under the names and labels of Kubernetes' components.

    These are those of component-base's metrics/prometheus/restclient. A code is the status, or `<error>` where no
    answer came.
    """

    def __init__(self, hosts: Mapping[str, HostRequests]) -> None:
        self._hosts = hosts

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        answers = CounterMetricFamily(
            "rest_client_requests",
            "Requests to the API server by the status of the answer.",
            labels=["code", "method", "host"],
        )
        seconds = HistogramMetricFamily(
            "rest_client_request_duration_seconds",
            "Time of a request to the API server until its whole answer, except watches.",
            labels=["verb", "host"],
        )
        for host, requests in self._hosts.items():
            for (method, status), count in requests.answers.items():
                code = "<error>" if status == UNANSWERED else str(status)
                answers.add_metric([code, method, host], count)
            for method, durations in requests.durations.items():
                buckets = [*zip(_BOUNDS, accumulate(durations.counts), strict=True)]
                seconds.add_metric([method, host], buckets, durations.total_seconds)
        yield answers
        yield seconds


class CountCollector(Collector):
    """Exports counts that another object keeps, by the value of one label."""

    def __init__(self, name: str, documentation: str, label: str, counts: Mapping[str, int]) -> None:
        self._name = name
        self._documentation = documentation
        self._label = label
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        """Yield the counts as they are now."""
        family = CounterMetricFamily(self._name, self._documentation, labels=[self._label])
        for value, count in sorted(self._counts.items()):
            family.add_metric([value], count)
        yield family

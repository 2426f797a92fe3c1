"""The registry of metrics for Prometheus, with what every program reports.

The cluster and the watches are read when a scrape asks for them (see state_metrics). No label has a value that a caller
can choose.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from prometheus_client import REGISTRY, CollectorRegistry, Info, disable_created_metrics
from prometheus_client import generate_latest as encode_text
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS
from prometheus_client.openmetrics.exposition import generate_latest as encode_openmetrics

from extender_service.cluster.debugging.table_sizes import TableSize
from extender_service.cluster.state.cluster import Cluster
from extender_service.kube.connection.sent_requests import HostRequests
from extender_service.kube.watching.watch_state import WatchState
from extender_service.observability.framework_metrics import FrameworkMetrics
from extender_service.observability.recent_exposition import OPENMETRICS_TYPE, RecentExposition, accepted_type
from extender_service.observability.state_metrics import (
    ClusterCollector,
    CountCollector,
    RequestCollector,
    WatchCollector,
)
from extender_service.seams import Clock

_TEXT = "text/plain; version=0.0.4; charset=utf-8"

_NONE: Mapping[str, int] = MappingProxyType({})
_NO_REQUESTS: Mapping[str, HostRequests] = MappingProxyType({})


class MetricsRegistry:
    """All metrics of one program, and those of the process; a program registers its own with `prometheus`.

    - `watches`: by resource, such as nodes
    - `requests`: what was sent to API servers, by host
    - `events`: events for users, by outcome
    - `refusals`: refused connections, by reason
    - `decisions_ahead`: decisions made ahead, by whether they were used
    - `asked_again`: refused pods that kube-scheduler was made to ask about again, by outcome
    - `own_tables`: returns the sizes of a program's own tables

    Set `framework` as the recorder of the profiles. Answer scrapes with `recent_exposition`. In the whole process,
    metrics have no `_created` from then on.
    """

    def __init__(
        self,
        version: str,
        cluster: Cluster,
        watches: Mapping[str, WatchState],
        *,
        requests: Mapping[str, HostRequests] = _NO_REQUESTS,
        events: Mapping[str, int] = _NONE,
        refusals: Mapping[str, int] = _NONE,
        decisions_ahead: Mapping[str, int] = _NONE,
        asked_again: Mapping[str, int] = _NONE,
        own_tables: Callable[[], Iterable[TableSize]] = tuple,
        clock: Clock = time.monotonic,
    ) -> None:
        # The library shows a gauge beside each counter and histogram, for each of their labels: when it was first used.
        # kube-scheduler has none, and process_start_time_seconds says what matters of it.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.recent_exposition = RecentExposition(self.exposition, clock)
        self.prometheus = CollectorRegistry()
        self.framework = FrameworkMetrics(self.prometheus)
        build = Info("extender_service_build", "The release that runs.", registry=self.prometheus)
        build.info({"version": version})
        emulated = Info(
            "extender_service_emulated_kubernetes",
            "The release of Kubernetes whose rules decide.",
            registry=self.prometheus,
        )
        emulated.info({"version": cluster.rules.release})
        for collector in (
            ClusterCollector(cluster, own_tables),
            WatchCollector(watches, clock),
            RequestCollector(requests),
            CountCollector(
                "extender_service_events",
                "Events for users by outcome: written, failed, or dropped as there were too many.",
                "result",
                events,
            ),
            CountCollector(
                "extender_service_refused_connections",
                "Connections refused, by the reason: certificate, name, protocol, malformed, header, origin, host, "
                "slow or crowd; and requests: caller (not authenticated) or review (the API server does not answer).",
                "reason",
                refusals,
            ),
            CountCollector(
                "extender_service_decisions_ahead",
                "Decisions made before they were asked for: used, or unused as something had changed by then.",
                "result",
                decisions_ahead,
            ),
            CountCollector(
                "extender_service_pods_asked_again",
                "Refused pods that fit once the watch had caught up: asked about again, or failed to be.",
                "result",
                asked_again,
            ),
            # The library's default registry has the metrics of the process, and those that users' plugins define.
            REGISTRY,
        ):
            self.prometheus.register(collector)

    def show_not_judged(self, questions: Mapping[str, int]) -> None:
        """Show the questions about pods with a field that is not judged, by the field."""
        self.prometheus.register(
            CountCollector(
                "extender_service_questions_not_judged",
                "Questions about pods with a field that is not judged here yet, or that the release ignores.",
                "field",
                questions,
            )
        )

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics as they are now, and the content type, in the format that `accept` asks for."""
        if accepted_type(accept) == OPENMETRICS_TYPE:
            return encode_openmetrics(self.prometheus), OPENMETRICS  # type: ignore[no-untyped-call]
        return encode_text(self.prometheus), _TEXT

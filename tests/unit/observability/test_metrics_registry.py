import pytest
from prometheus_client import REGISTRY, Counter

from extender_service.cluster.state.cluster import Cluster
from extender_service.config.rules import rules_of
from extender_service.observability.metrics_registry import MetricsRegistry
from tests.support.samples import scrape, value


@pytest.fixture
def metrics() -> MetricsRegistry:
    return MetricsRegistry("1.2.3", Cluster(), {})


def test_decisions_made_ahead_are_counted_by_whether_they_were_used() -> None:
    metrics = MetricsRegistry("1.2.3", Cluster(), {}, decisions_ahead={"used": 7, "unused": 2})
    assert value(metrics, "extender_service_decisions_ahead_total", result="used") == 7
    assert value(metrics, "extender_service_decisions_ahead_total", result="unused") == 2


def test_refused_pods_that_are_asked_about_again_are_counted_by_outcome() -> None:
    metrics = MetricsRegistry("1.2.3", Cluster(), {}, asked_again={"asked": 3, "failed": 1})
    assert value(metrics, "extender_service_pods_asked_again_total", result="asked") == 3
    assert value(metrics, "extender_service_pods_asked_again_total", result="failed") == 1


def test_the_release_and_the_process_are_told(metrics: MetricsRegistry) -> None:
    samples = scrape(metrics)
    assert value(metrics, "extender_service_build_info", version="1.2.3") == 1
    names = {name for name, _ in samples}
    assert {"process_resident_memory_bytes", "process_cpu_seconds_total", "python_gc_collections_total"} <= names


def test_the_release_of_kubernetes_that_is_followed_is_told() -> None:
    registry = MetricsRegistry("1.2.3", Cluster(rules_of(34)), {})
    assert value(registry, "extender_service_emulated_kubernetes_info", version="1.34") == 1


def test_what_a_users_plugin_defines_is_there() -> None:
    registry = MetricsRegistry("1.2.3", Cluster(), {})
    mine = Counter("users_plugin_refusals", "Nodes that a user's plugin refused.")
    try:
        mine.inc(3)
        assert value(registry, "users_plugin_refusals_total") == 3
    finally:
        REGISTRY.unregister(mine)


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text"])
def test_no_metric_says_when_it_was_first_used(accept: str) -> None:
    metrics = MetricsRegistry("1.2.3", Cluster(), {})
    metrics.framework.record_point("default-scheduler", "Filter", "Success", 0.5)
    body, _ = metrics.exposition(accept)
    assert b"scheduler_framework_extension_point_duration_seconds_count{" in body
    assert b"_created" not in body


def test_openmetrics_is_spoken_where_it_is_asked_for(metrics: MetricsRegistry) -> None:
    accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
    body, content_type = metrics.exposition(accept)
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert body.endswith(b"# EOF\n")
    assert b"# TYPE extender_service_decisions_ahead counter\n" in body


def test_text_is_the_default(metrics: MetricsRegistry) -> None:
    assert metrics.exposition("*/*")[1] == "text/plain; version=0.0.4; charset=utf-8"

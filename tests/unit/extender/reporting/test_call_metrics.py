import pytest
from prometheus_client import REGISTRY, Counter
from prometheus_client.parser import text_string_to_metric_families as parse

from extender_service.cluster.state.cluster import Cluster
from extender_service.extender.reporting.call_metrics import Metrics
from extender_service.extender.reporting.observation import Observation

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(metrics: Metrics) -> Samples:
    body, _ = metrics.exposition("")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parse(body.decode())
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return scrape(metrics)[name, frozenset(labels.items())]


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("1.2.3", Cluster(), {})


def test_calls_are_counted_by_verb_and_result(metrics: Metrics) -> None:
    metrics.observe(Observation(verb="filter", pod="a/b", seconds=0.01, asked=5, passed=1))
    metrics.observe(Observation(verb="filter", pod="a/b", seconds=0.01, asked=5, passed=0))
    metrics.observe(Observation(verb="filter", pod="a/b", seconds=0.01, asked=5, passed=0))
    metrics.observe(Observation(verb="bind", pod="a/b", seconds=0.01, error="no such node"))
    name = "extender_service_requests_total"
    assert value(metrics, name, verb="filter", result="ok") == 1
    assert value(metrics, name, verb="filter", result="refused") == 2
    assert value(metrics, name, verb="filter", result="error") == 0
    assert value(metrics, name, verb="bind", result="error") == 1
    assert value(metrics, name, verb="preempt", result="ok") == 0


def test_a_call_that_asks_about_no_node_is_not_refused(metrics: Metrics) -> None:
    metrics.observe(Observation(verb="prioritize", pod="a/b", seconds=0.01))
    assert value(metrics, "extender_service_requests_total", verb="prioritize", result="ok") == 1


def test_latency_is_a_histogram_by_verb(metrics: Metrics) -> None:
    for seconds in (0.00009, 0.0042, 11.0):
        metrics.observe(Observation(verb="filter", pod="a/b", seconds=seconds, asked=1, passed=1))
    name = "extender_service_request_duration_seconds"
    assert value(metrics, f"{name}_bucket", verb="filter", le="0.0001") == 1
    assert value(metrics, f"{name}_bucket", verb="filter", le="0.005") == 2
    assert value(metrics, f"{name}_bucket", verb="filter", le="10.0") == 2
    assert value(metrics, f"{name}_bucket", verb="filter", le="+Inf") == 3
    assert value(metrics, f"{name}_sum", verb="filter") == pytest.approx(11.00429)
    assert value(metrics, f"{name}_count", verb="bind") == 0


def test_nodes_asked_and_passed_are_summed_by_verb(metrics: Metrics) -> None:
    metrics.observe(Observation(verb="filter", pod="a/b", seconds=0, asked=5, passed=3))
    metrics.observe(Observation(verb="filter", pod="a/c", seconds=0, asked=4, passed=0))
    assert value(metrics, "extender_service_asked_nodes_total", verb="filter") == 9
    assert value(metrics, "extender_service_passed_nodes_total", verb="filter") == 3
    assert value(metrics, "extender_service_asked_nodes_total", verb="preempt") == 0


def test_second_looks_are_counted_by_what_came_of_them(metrics: Metrics) -> None:
    for passed in (0, 1, 1):
        metrics.observe(Observation(verb="filter", pod="a/b", seconds=0.05, asked=5, passed=passed, looked_again=True))
    metrics.observe(Observation(verb="filter", pod="a/b", seconds=0.05, asked=5, passed=5))
    assert value(metrics, "extender_service_second_looks_total", result="ok") == 2
    assert value(metrics, "extender_service_second_looks_total", result="refused") == 1


def test_decisions_made_ahead_are_counted_by_whether_they_were_used() -> None:
    metrics = Metrics("1.2.3", Cluster(), {}, decisions_ahead={"used": 7, "unused": 2})
    assert value(metrics, "extender_service_decisions_ahead_total", result="used") == 7
    assert value(metrics, "extender_service_decisions_ahead_total", result="unused") == 2


def test_the_release_and_the_process_are_told(metrics: Metrics) -> None:
    samples = scrape(metrics)
    assert value(metrics, "extender_service_build_info", version="1.2.3") == 1
    names = {name for name, _ in samples}
    assert {"process_resident_memory_bytes", "process_cpu_seconds_total", "python_gc_collections_total"} <= names


def test_what_a_caller_chooses_makes_no_new_series(metrics: Metrics) -> None:
    before = scrape(metrics).keys()
    for number in range(20):
        metrics.observe(
            Observation(
                verb="filter",
                pod=f"default/pod-{number}",
                seconds=0,
                asked=number,
                reasons={f"reason {number}": number},
                node_name=f"node-{number}",
                error=f"error {number}" if number % 2 else "",
            )
        )
    assert scrape(metrics).keys() == before


def test_two_services_in_one_process_count_apart(metrics: Metrics) -> None:
    other = Metrics("1.2.3", Cluster(), {})
    metrics.observe(Observation(verb="bind", pod="a/b", seconds=0, asked=1, passed=1))
    name = "extender_service_requests_total"
    assert value(metrics, name, verb="bind", result="ok") == 1
    assert value(other, name, verb="bind", result="ok") == 0


def test_what_a_users_plugin_defines_is_there() -> None:
    registry = Metrics("1.2.3", Cluster(), {})
    mine = Counter("users_plugin_refusals", "Nodes that a user's plugin refused.")
    try:
        mine.inc(3)
        assert value(registry, "users_plugin_refusals_total") == 3
    finally:
        REGISTRY.unregister(mine)


def test_openmetrics_is_spoken_where_it_is_asked_for(metrics: Metrics) -> None:
    accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
    body, content_type = metrics.exposition(accept)
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert body.endswith(b"# EOF\n")
    assert b"# TYPE extender_service_requests counter\n" in body


def test_text_is_the_default(metrics: Metrics) -> None:
    assert metrics.exposition("*/*")[1] == "text/plain; version=0.0.4; charset=utf-8"

import pytest

from extender_service.cluster.state.cluster import Cluster
from extender_service.extender.reporting.call_metrics import CallMetrics
from extender_service.extender.reporting.observation import Observation
from extender_service.observability.metrics_registry import MetricsRegistry
from tests.support.samples import scrape, value


class Calls:
    """The metrics of a service, and what a scrape shows of them."""

    def __init__(self) -> None:
        self.registry = MetricsRegistry("1.2.3", Cluster(), {})
        self.observe = CallMetrics(self.registry).observe


@pytest.fixture
def calls() -> Calls:
    return Calls()


def test_calls_are_counted_by_verb_and_result(calls: Calls) -> None:
    calls.observe(Observation(verb="filter", pod="a/b", seconds=0.01, asked=5, passed=1))
    calls.observe(Observation(verb="filter", pod="a/b", seconds=0.01, asked=5, passed=0))
    calls.observe(Observation(verb="filter", pod="a/b", seconds=0.01, asked=5, passed=0))
    calls.observe(Observation(verb="bind", pod="a/b", seconds=0.01, error="no such node"))
    name = "extender_service_requests_total"
    assert value(calls.registry, name, verb="filter", result="ok") == 1
    assert value(calls.registry, name, verb="filter", result="refused") == 2
    assert value(calls.registry, name, verb="filter", result="error") == 0
    assert value(calls.registry, name, verb="bind", result="error") == 1
    assert value(calls.registry, name, verb="preempt", result="ok") == 0


def test_a_call_that_asks_about_no_node_is_not_refused(calls: Calls) -> None:
    calls.observe(Observation(verb="prioritize", pod="a/b", seconds=0.01))
    assert value(calls.registry, "extender_service_requests_total", verb="prioritize", result="ok") == 1


def test_latency_is_a_histogram_by_verb(calls: Calls) -> None:
    for seconds in (0.00009, 0.0042, 11.0):
        calls.observe(Observation(verb="filter", pod="a/b", seconds=seconds, asked=1, passed=1))
    name = "extender_service_request_duration_seconds"
    assert value(calls.registry, f"{name}_bucket", verb="filter", le="0.0001") == 1
    assert value(calls.registry, f"{name}_bucket", verb="filter", le="0.005") == 2
    assert value(calls.registry, f"{name}_bucket", verb="filter", le="10.0") == 2
    assert value(calls.registry, f"{name}_bucket", verb="filter", le="+Inf") == 3
    assert value(calls.registry, f"{name}_sum", verb="filter") == pytest.approx(11.00429)
    assert value(calls.registry, f"{name}_count", verb="bind") == 0


def test_nodes_asked_and_passed_are_summed_by_verb(calls: Calls) -> None:
    calls.observe(Observation(verb="filter", pod="a/b", seconds=0, asked=5, passed=3))
    calls.observe(Observation(verb="filter", pod="a/c", seconds=0, asked=4, passed=0))
    assert value(calls.registry, "extender_service_asked_nodes_total", verb="filter") == 9
    assert value(calls.registry, "extender_service_passed_nodes_total", verb="filter") == 3
    assert value(calls.registry, "extender_service_asked_nodes_total", verb="preempt") == 0


def test_second_looks_are_counted_by_what_came_of_them(calls: Calls) -> None:
    for passed in (0, 1, 1):
        calls.observe(Observation(verb="filter", pod="a/b", seconds=0.05, asked=5, passed=passed, looked_again=True))
    calls.observe(Observation(verb="filter", pod="a/b", seconds=0.05, asked=5, passed=5))
    assert value(calls.registry, "extender_service_second_looks_total", result="ok") == 2
    assert value(calls.registry, "extender_service_second_looks_total", result="refused") == 1


def test_what_a_caller_chooses_makes_no_new_series(calls: Calls) -> None:
    before = scrape(calls.registry).keys()
    for number in range(20):
        calls.observe(
            Observation(
                verb="filter",
                pod=f"default/pod-{number}",
                seconds=0,
                asked=number,
                node_name=f"node-{number}",
                error=f"error {number}" if number % 2 else "",
            )
        )
    assert scrape(calls.registry).keys() == before


def test_two_services_in_one_process_count_apart(calls: Calls) -> None:
    other = Calls()
    calls.observe(Observation(verb="bind", pod="a/b", seconds=0, asked=1, passed=1))
    name = "extender_service_requests_total"
    assert value(calls.registry, name, verb="bind", result="ok") == 1
    assert value(other.registry, name, verb="bind", result="ok") == 0

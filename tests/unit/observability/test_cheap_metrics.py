from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from extender_service.observability.cheap_metrics import CheapCounter, CheapHistogram

BUCKETS = (0.25, 0.5, 1.0)
values = st.lists(st.sampled_from([0.0, 0.2, 0.25, 0.3, 0.5, 1.0, 1.5, 100.0]))
rounds_of_values = st.lists(st.dictionaries(st.sampled_from(["active", 'back"off']), values), max_size=4)


def exposition(
    histogram_type: type[Histogram], counter_type: type[Counter], rounds: list[dict[str, list[float]]]
) -> list[str]:
    """What scrapes show, one after each round, without the times at which series began: a MetricsRegistry, once made,
    hides them in the whole process."""
    registry = CollectorRegistry()
    waits = histogram_type("wait_seconds", "How long it took.", ["queue"], buckets=BUCKETS, registry=registry)
    sizes = histogram_type("size", "How many.", buckets=BUCKETS, registry=registry)
    pods = counter_type("pods", "Pods.", ["queue", "priority"], registry=registry)
    scrapes = []
    for by_queue in rounds:
        for queue, amounts in by_queue.items():
            for amount in amounts:
                waits.labels(queue).observe(amount)
                sizes.observe(amount)
                pods.labels(queue, int(amount)).inc()
        lines = generate_latest(registry).decode().splitlines()
        scrapes.append("\n".join(line for line in lines if "_created" not in line))
    return scrapes


@given(rounds_of_values)
def test_scrapes_show_what_the_librarys_metrics_show(rounds: list[dict[str, list[float]]]) -> None:
    assert exposition(CheapHistogram, CheapCounter, rounds) == exposition(Histogram, Counter, rounds)


def test_scrapes_have_each_metric_once() -> None:
    registry = CollectorRegistry()
    CheapHistogram("wait_seconds", "How long it took.", ["queue"], registry=registry).labels("active").observe(1.0)
    CheapCounter("pods", "Pods.", ["queue"], registry=registry).labels("active").inc()
    text = generate_latest(registry).decode()
    assert text.count("# TYPE wait_seconds histogram") == 1
    assert text.count("# TYPE pods_total counter") == 1

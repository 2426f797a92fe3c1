"""What a scrape of the metrics shows."""

from prometheus_client.parser import text_string_to_metric_families as parse

from extender_service.observability.metrics_registry import MetricsRegistry

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(metrics: MetricsRegistry) -> Samples:
    body, _ = metrics.exposition("")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parse(body.decode())
        for sample in family.samples
    }


def value(metrics: MetricsRegistry, name: str, **labels: str) -> float:
    return scrape(metrics)[name, frozenset(labels.items())]

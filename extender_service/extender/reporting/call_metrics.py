"""Metrics of calls, counted as they happen. No label has a value that a caller can choose."""

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from prometheus_client import Counter

from extender_service.extender.overload.overload import Limit
from extender_service.extender.reporting.observation import Observation, Verb
from extender_service.observability.cheap_metrics import CheapHistogram
from extender_service.observability.metrics_registry import MetricsRegistry

Result = Literal["ok", "refused", "error"]

# Seconds, from a call about a few nodes to one that exceeds kube-scheduler's httpTimeout (5 s by default).
_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class _VerbMetrics(NamedTuple):
    """The metrics of one verb; looking labels up for each call would cost more than counting."""

    requests: Mapping[Result, Counter]
    seconds: CheapHistogram
    asked: Counter
    passed: Counter


class CallMetrics:
    """Counts calls in a registry."""

    def __init__(self, metrics: MetricsRegistry) -> None:
        registry = metrics.prometheus
        requests = Counter(
            "extender_service_requests",
            "Calls by outcome: ok; refused, as no node passed; error.",
            ["verb", "result"],
            registry=registry,
        )
        seconds = CheapHistogram(
            "extender_service_request_duration_seconds",
            "Time from the arrival of a call to its answer.",
            ["verb"],
            buckets=_SECONDS,
            registry=registry,
        )
        asked = Counter("extender_service_asked_nodes", "Nodes asked about.", ["verb"], registry=registry)
        passed = Counter("extender_service_passed_nodes", "Nodes asked about that passed.", ["verb"], registry=registry)
        self._verbs = {
            verb: _VerbMetrics(
                {result: requests.labels(verb, result) for result in get_args(Result)},
                seconds.labels(verb),
                asked.labels(verb),
                passed.labels(verb),
            )
            for verb in get_args(Verb)
        }
        second_looks = Counter(
            "extender_service_second_looks",
            "Filter calls that waited a moment for the watch before refusing every node, by outcome.",
            ["result"],
            registry=registry,
        )
        self._second_looks = {result: second_looks.labels(result) for result in get_args(Result)}
        limited = Counter(
            "extender_service_limited_requests",
            "Calls that ended with an error because they exceeded a limit, by limit.",
            ["verb", "limit"],
            registry=registry,
        )
        self._limited = {
            (verb, limit): limited.labels(verb, limit) for verb in get_args(Verb) for limit in get_args(Limit) if limit
        }

    def observe(self, observation: Observation) -> None:
        """Count a call."""
        verb = self._verbs[observation.verb]
        result = _result(observation)
        verb.requests[result].inc()
        verb.seconds.observe(observation.seconds)
        verb.asked.inc(observation.asked)
        verb.passed.inc(observation.passed)
        if observation.limit:
            self._limited[observation.verb, observation.limit].inc()
        if observation.looked_again:
            self._second_looks[result].inc()


def _result(observation: Observation) -> Result:
    if observation.error:
        return "error"
    return "refused" if observation.asked and not observation.passed else "ok"

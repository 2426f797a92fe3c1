import logging

import pytest

from extender_service.cluster.cluster import Cluster
from extender_service.extender.observation import Observation
from extender_service.observability.metrics import Metrics
from extender_service.observability.observer import observer


def test_a_call_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics("1.2.3", Cluster(), {})
    with caplog.at_level(logging.INFO, "extender_service"):
        observer(metrics)(Observation(verb="prioritize", pod="a/b", seconds=0.001, asked=5, passed=5))
    assert b'extender_service_requests_total{result="ok",verb="prioritize"} 1.0' in metrics.exposition("")[0]
    assert [record.getMessage() for record in caplog.records] == ["decided"]

"""Results of health checks as metrics."""

from extender_service.observability.sli_metrics import SliMetrics


def test_checks_show_their_last_result_and_how_often_there_was_which() -> None:
    slis = SliMetrics()
    slis.observe("readyz", {"ping": True, "sync": False})
    slis.observe("readyz", {"ping": True, "sync": True})
    slis.observe("healthz", {"ping": True})
    lines = [line for line in slis.exposition().decode().splitlines() if line.startswith("kubernetes")]
    assert set(lines) == {
        'kubernetes_healthcheck{name="ping",type="healthz"} 1.0',
        'kubernetes_healthcheck{name="ping",type="readyz"} 1.0',
        'kubernetes_healthcheck{name="sync",type="readyz"} 1.0',
        'kubernetes_healthchecks_total{name="ping",status="success",type="healthz"} 1.0',
        'kubernetes_healthchecks_total{name="ping",status="success",type="readyz"} 2.0',
        'kubernetes_healthchecks_total{name="sync",status="error",type="readyz"} 1.0',
        'kubernetes_healthchecks_total{name="sync",status="success",type="readyz"} 1.0',
    }
    assert b"process_start_time_seconds" in slis.exposition()

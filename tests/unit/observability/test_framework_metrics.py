from prometheus_client import CollectorRegistry, generate_latest

from extender_service.observability.framework_metrics import FrameworkMetrics


def test_durations_are_told_under_kube_schedulers_names_and_labels() -> None:
    registry = CollectorRegistry()
    metrics = FrameworkMetrics(registry)
    for seconds in (0.001, 0.002):
        metrics.record_point("default-scheduler", "Filter", "Success", seconds)
    metrics.record_plugin("NodeName", "Filter", "Success", 0.00002)
    metrics.record_permit_wait("Unschedulable", 1.5)
    text = generate_latest(registry).decode()
    point = 'extension_point="Filter",profile="default-scheduler",status="Success"'
    assert f"scheduler_framework_extension_point_duration_seconds_count{{{point}}} 2.0" in text
    plugin = 'extension_point="Filter",plugin="NodeName",status="Success"'
    assert f"scheduler_plugin_execution_duration_seconds_sum{{{plugin}}} 2e-05" in text
    assert 'scheduler_permit_wait_duration_seconds_sum{result="Unschedulable"} 1.5' in text

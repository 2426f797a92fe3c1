from collections import Counter
from collections.abc import Callable
from uuid import uuid4

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.structures.interning import shared
from extender_service.config.rules import rules_of
from extender_service.kube.connection.sent_requests import SentRequests
from extender_service.kube.types.core import Node, NodeStatus, ObjectMeta, Pod, PodSpec
from extender_service.kube.watching.watch_state import WatchState
from extender_service.observability.state_metrics import (
    ClusterCollector,
    CountCollector,
    RequestCollector,
    WatchCollector,
)

CACHE_SIZE = "scheduler_scheduler_cache_size"


def reader(collector: Collector) -> Callable[..., float | None]:
    registry = CollectorRegistry()
    registry.register(collector)
    return lambda name, **labels: registry.get_sample_value(name, labels)


def node(name: str) -> Node:
    labels = {"kubernetes.io/hostname": name}
    return Node(ObjectMeta(name=name, labels=labels), status=NodeStatus(allocatable={"cpu": "4", "pods": "110"}))


def pod(name: str, node_name: str = "") -> Pod:
    return Pod(ObjectMeta(name=name, namespace="default", uid=f"uid-{name}"), PodSpec(node_name=node_name))


def test_the_cache_is_measured_as_kube_scheduler_measures_its_own() -> None:
    cluster = Cluster()
    value = reader(ClusterCollector(cluster))
    for name in ("node-1", "node-2"):
        cluster.apply_node(node(name))
    for known in (pod("bound", "node-1"), pod("pending"), pod("chosen"), pod("binding")):
        cluster.apply_pod(known)
    cluster.placements.place(pod("chosen"), "uid-chosen", "node-1")
    cluster.placements.place(pod("binding"), "uid-binding", "node-2").assume()
    assert value(CACHE_SIZE, type="nodes") == 2
    # One that is bound, one that is assumed.
    assert value(CACHE_SIZE, type="pods") == 2
    assert value(CACHE_SIZE, type="assumed_pods") == 1
    assert value("extender_service_expected_pods") == 1
    assert value("extender_service_known_pods") == 4


def test_the_size_of_the_cache_has_another_name_from_1_34_on_and_both_in_1_33() -> None:
    names = (CACHE_SIZE, "scheduler_cache_size")
    for minor, shown in ((32, names[:1]), (33, names), (34, names[1:]), (37, names[1:])):
        value = reader(ClusterCollector(Cluster(rules_of(minor))))
        assert tuple(name for name in names if value(name, type="nodes") is not None) == shown


def test_a_placement_that_the_watch_confirms_is_a_fact() -> None:
    cluster = Cluster()
    value = reader(ClusterCollector(cluster))
    cluster.apply_node(node("node-1"))
    cluster.placements.place(pod("web"), "uid-web", "node-1").assume()
    cluster.apply_pod(pod("web", "node-1"))
    assert value(CACHE_SIZE, type="pods") == 1
    assert value(CACHE_SIZE, type="assumed_pods") == 0


def test_tables_tell_how_full_they_are() -> None:
    cluster = Cluster()
    value = reader(ClusterCollector(cluster))
    cluster.apply_node(node("node-1"))
    cluster.view(None).label("kubernetes.io/hostname")
    assert value("extender_service_table_entries", table="node_rows") == 1
    assert value("extender_service_table_limit", table="node_rows") is None
    assert value("extender_service_table_entries", table="node_label_keys") == 1
    assert value("extender_service_table_limit", table="node_label_keys") == 256


def test_caches_report_what_they_take_and_may_take() -> None:
    value = reader(ClusterCollector(Cluster()))
    name = f"name-{uuid4().hex[:8]}"
    before = value("extender_service_cache_bytes", cache="texts")
    shared(name)
    assert before is not None
    assert value("extender_service_cache_bytes", cache="texts") == before + 700
    assert value("extender_service_cache_limit_bytes", cache="texts") == 700 * 16384


def test_watches_tell_how_well_they_keep_up() -> None:
    nodes = WatchState(heard_at=100.0, synced=True, lists=2, relists=1, watches=7, events=Counter(ADDED=3, ERROR=1))
    pods = WatchState(heard_at=90.0)
    value = reader(WatchCollector({"nodes": nodes, "pods": pods}, lambda: 100.0))
    prefix = "extender_service_watch"
    assert value(f"{prefix}_synced", resource="nodes") == 1
    assert value(f"{prefix}_synced", resource="pods") == 0
    assert value(f"{prefix}_stale_seconds", resource="nodes") == 0
    assert value(f"{prefix}_stale_seconds", resource="pods") == 10
    assert value(f"{prefix}_lists_total", resource="nodes") == 2
    assert value(f"{prefix}_relists_total", resource="nodes") == 1
    assert value(f"{prefix}_opened_total", resource="nodes") == 7
    assert value(f"{prefix}_events_total", resource="nodes", type="ADDED") == 3
    assert value(f"{prefix}_events_total", resource="nodes", type="ERROR") == 1
    assert value(f"{prefix}_events_total", resource="pods", type="ADDED") is None


def test_the_metrics_follow_the_state() -> None:
    state = WatchState(heard_at=90.0)
    value = reader(WatchCollector({"pods": state}, lambda: 100.0))
    assert value("extender_service_watch_stale_seconds", resource="pods") == 10
    state.heard_at = 100.0
    assert value("extender_service_watch_stale_seconds", resource="pods") == 0


def test_requests_to_the_api_server_have_the_names_and_buckets_of_kubernetes_components() -> None:
    sent = SentRequests()
    value = reader(RequestCollector(sent.hosts))
    requests = sent.to("10.96.0.1:443")
    requests.answers["POST", 201] += 2
    requests.answers["GET", 0] += 1
    for seconds in (0.004, 0.005, 0.02, 70.0):
        requests.took("POST", seconds)
    host = "10.96.0.1:443"
    assert value("rest_client_requests_total", code="201", method="POST", host=host) == 2
    assert value("rest_client_requests_total", code="<error>", method="GET", host=host) == 1
    name = "rest_client_request_duration_seconds"
    shown = [value(f"{name}_bucket", le=bound, verb="POST", host=host) for bound in ("0.005", "0.025", "60.0", "+Inf")]
    assert shown == [2, 3, 3, 4]
    assert value(f"{name}_count", verb="POST", host=host) == 4
    assert value(f"{name}_sum", verb="POST", host=host) == 0.004 + 0.005 + 0.02 + 70.0


def test_events_are_counted_by_what_became_of_them() -> None:
    counts = Counter(written=2, dropped=0)
    value = reader(CountCollector("extender_service_events", "Events by what became of them.", "result", counts))
    counts["dropped"] += 1
    assert value("extender_service_events_total", result="written") == 2
    assert value("extender_service_events_total", result="dropped") == 1

from extender_service.cluster.debugging.state_dump import dump
from tests.support.objects import cluster_of, make_node, make_pod

WEB = make_pod("web", requests={"cpu": "1"}, ports=[80])


def test_a_dump_shows_nodes_placements_and_table_sizes() -> None:
    cluster = cluster_of(
        [make_node("a", {"cpu": "4", "x/gpu": "1"}), make_node("idle", {})],
        [make_pod("db", "a", requests={"cpu": "1500m", "memory": "0"}, ports=[80]), make_pod("early", "gone"), WEB],
    )
    cluster.placements.place(WEB, "uid-of-web", "a")
    cluster.placements.place(make_pod("job", requests={"cpu": "0", "memory": "0"}), "uid-of-job", "a").assume()
    lines = list(dump(cluster))
    assert lines[:5] == [
        "node a: pods 3/0, cpu_milli 2500/4000, nonzero_cpu_milli 2500/0, nonzero_memory_bytes 209715200/0, x/gpu 0/1",
        "node idle: nothing",
        "node gone (not known): pods 1/0, nonzero_cpu_milli 100/0, nonzero_memory_bytes 209715200/0",
        "pod default/web (uid-of-web) is expected on a",
        "pod default/job (uid-of-job) is assumed on a",
    ]
    assert lines[5] == "tables: 2 nodes in 3 rows of 64; 3 pods and 2 placements in 5 slots"
    assert {
        "table taint_sets: 1",
        "table node_port_sets: 2",
        "table pod_port_sets: 2",
        "table request_sets: 4",
        "table dimensions: 7",
        "table pod_counts: 0 of 512 at most",
    } <= set(lines[6:])


def test_a_dump_is_possible_while_a_waiting_pod_asks_for_what_no_node_has() -> None:
    cluster = cluster_of([make_node("a", {"cpu": "4"})], [make_pod("waiting", requests={"x/gpu": "1"})])
    assert next(iter(dump(cluster))) == "node a: cpu_milli 0/4000"

import msgspec

from extender_service.cluster.amounts.dimensions import CPU_MILLI
from extender_service.cluster.debugging.comparison import compare
from extender_service.cluster.state.cluster import Cluster
from extender_service.kube.types.core import (
    Affinity,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    Taint,
)
from extender_service.kube.types.policy import PodDisruptionBudget
from tests.support.objects import cluster_of, make_node, make_pod
from tests.support.storage_objects import make_volume

WEB = make_pod("web", requests={"cpu": "1"}, ports=[80])
WEB_ON_A = make_pod("web", "a", requests={"cpu": "1"}, ports=[80])


def test_a_cluster_that_saw_the_same_in_another_order_does_not_differ() -> None:
    cluster = cluster_of(pods=[WEB, make_pod("old", "b"), WEB_ON_A, make_pod("train", "b", requests={"x.io/gpu": "1"})])
    cluster.remove_pod(("default", "old"))
    for node in (make_node("gone"), make_node("b", {"x.io/gpu": "4"}), make_node("a")):
        cluster.apply_node(node)
    cluster.remove_node("gone")
    listed = cluster_of(
        [make_node("a"), make_node("b", {"x.io/gpu": "4"})],
        [make_pod("train", "b", requests={"x.io/gpu": "1"}), WEB_ON_A, make_pod("ended", "a", phase="Succeeded")],
    )
    differences = compare(cluster, listed)
    assert not differences
    assert differences.lines() == []


def test_nodes_and_pods_that_only_one_side_has_are_named() -> None:
    cluster = cluster_of([make_node("a"), make_node("b")], [make_pod("web-0", "a"), make_pod("web-1", "x")])
    listed = cluster_of([make_node("a"), make_node("c")], [make_pod("web-0", "a"), make_pod("web-2", "y")])
    differences = compare(cluster, listed)
    assert differences
    assert differences.lines() == [
        "missed nodes (1): c",
        "redundant nodes (1): b",
        "missed pods (1): default/web-2 (uid-of-web-2)",
        "redundant pods (1): default/web-1 (uid-of-web-1)",
    ]


def test_a_pod_made_again_under_the_same_name_is_another_pod() -> None:
    differences = compare(cluster_of(pods=[make_pod("web", uid="old")]), cluster_of(pods=[make_pod("web", uid="new")]))
    assert differences.missed_pods == ["default/web (new)"]
    assert differences.redundant_pods == ["default/web (old)"]


def test_a_pod_on_another_node_is_misplaced_and_both_sums_differ() -> None:
    nodes = [make_node("a"), make_node("b")]
    cluster = cluster_of(nodes, [make_pod("web", "b", requests={"cpu": "1", "memory": "0"})])
    listed = cluster_of(nodes, [make_pod("web", "a", requests={"cpu": "1", "memory": "0"})])
    assert compare(cluster, listed).lines() == [
        "misplaced pods (1): default/web (uid-of-web) is on b, listed on a",
        "node a: requested cpu_milli is nothing, listed 1000",
        "node a: requested nonzero_cpu_milli is nothing, listed 1000",
        "node a: requested pods is nothing, listed 1",
        "node b: requested cpu_milli is 1000, listed nothing",
        "node b: requested nonzero_cpu_milli is 1000, listed nothing",
        "node b: requested pods is 1, listed nothing",
    ]


def test_a_pod_with_other_labels_or_affinity_is_named() -> None:
    def labelled(name: str, value: str) -> Pod:
        return Pod(ObjectMeta(name=name, namespace="default", uid=f"uid-of-{name}", labels={"app": value}))

    affinity = Affinity(pod_affinity=PodAffinity(required=(PodAffinityTerm(topology_key="zone"),)))
    near = msgspec.structs.replace(make_pod("near"), spec=PodSpec(affinity=affinity))
    cluster = cluster_of(pods=[labelled("web", "a"), labelled("same", "a"), make_pod("near")])
    assert compare(cluster, cluster_of(pods=[labelled("web", "b"), labelled("same", "a"), near])).lines() == [
        "pods with other labels or affinity (2): default/near (uid-of-near), default/web (uid-of-web)"
    ]


def test_objects_of_other_kinds_are_compared_by_version() -> None:
    def budget(name: str, version: str) -> PodDisruptionBudget:
        return PodDisruptionBudget(ObjectMeta(name=name, namespace="default", resource_version=version))

    cluster, listed = Cluster(), Cluster()
    for each in (cluster, listed):
        each.workloads.apply(budget("same", "1"))
        each.apply_storage(make_volume("v"))
    cluster.workloads.apply(budget("web", "2"))
    listed.workloads.apply(budget("web", "3"))
    cluster.apply_storage(make_volume("gone"))
    assert compare(cluster, listed).lines() == [
        "missed objects (1): PodDisruptionBudget default/web at version 3",
        "redundant objects (2): PersistentVolume gone at version , PodDisruptionBudget default/web at version 2",
    ]


def test_a_sum_that_has_drifted_from_its_pods_is_found() -> None:
    cluster = cluster_of([make_node("a")], [WEB_ON_A])
    cluster.nodes.requested[CPU_MILLI, cluster.nodes.row_of["a"]] += 7
    assert compare(cluster, cluster_of([make_node("a")], [WEB_ON_A])).lines() == [
        "node a: requested cpu_milli is 1007, listed 1000"
    ]


def test_other_facts_of_nodes_are_compared_too() -> None:
    old = make_node("a", {"cpu": "4"}, labels={"zone": "x", "disk": "ssd"}, taints=[Taint("gpu", "yes", "NoSchedule")])
    new = make_node("a", {"cpu": "8", "x.io/gpu": "1"}, labels={"zone": "y"}, unschedulable=True)
    assert compare(cluster_of([old], [WEB_ON_A]), cluster_of([new], [make_pod("web", "a", ports=[81])])).lines() == [
        "node a: allocatable cpu_milli is 4000, listed 8000",
        "node a: allocatable x.io/gpu is nothing, listed 1",
        "node a: host port 0.0.0.0/TCP/80 is in use, listed nothing",
        "node a: host port 0.0.0.0/TCP/81 is nothing, listed in use",
        "node a: label disk is ssd, listed nothing",
        "node a: label zone is x, listed y",
        "node a: requested cpu_milli is 1000, listed nothing",
        "node a: requested nonzero_cpu_milli is 1000, listed 100",
        "node a: taint gpu=yes:NoSchedule is set, listed nothing",
        "node a: unschedulable is nothing, listed true",
    ]


def test_a_placement_ahead_of_the_watch_is_no_difference() -> None:
    cluster = cluster_of([make_node("a")], [WEB])
    cluster.placements.place(WEB, "uid-of-web", "a")
    assert not compare(cluster, cluster_of([make_node("a")], [WEB]))
    assert not compare(cluster, cluster_of([make_node("a")], [WEB_ON_A]))
    cluster.remove_pod(("default", "web"))
    cluster.placements.place(WEB, "uid-of-web", "a").assume()
    assert not compare(cluster, cluster_of([make_node("a")], [WEB_ON_A]))
    assert not compare(cluster, cluster_of([make_node("a")]))


def test_a_placement_on_another_node_than_the_list_shows_is_a_difference() -> None:
    nodes = [make_node("a"), make_node("b")]
    cluster = cluster_of(nodes, [WEB])
    cluster.placements.place(WEB, "uid-of-web", "b")
    differences = compare(cluster, cluster_of(nodes, [WEB_ON_A]))
    assert differences.misplaced_pods == ["default/web (uid-of-web) is on no node, listed on a"]
    assert {difference.node_name for difference in differences.nodes} == {"a", "b"}


def test_many_differences_are_counted_and_some_of_them_named() -> None:
    cluster = cluster_of([make_node("a")], [make_pod(f"web-{number}") for number in range(1000)])
    lines = compare(cluster, cluster_of([make_node("a", labels={str(n): "x" for n in range(60)})])).lines()
    assert lines[0].startswith("redundant pods (1000): default/web-0 (uid-of-web-0), ")
    assert lines[0].endswith("), …")
    assert lines[0].count("default/") == 50
    assert (len(lines), lines[-1]) == (52, "and 10 more")


def test_fifty_differences_of_a_kind_are_all_named() -> None:
    cluster = cluster_of([make_node("a")], [make_pod(f"web-{number}") for number in range(50)])
    lines = compare(cluster, cluster_of([make_node("a", labels={str(n): "x" for n in range(50)})])).lines()
    assert lines[0].count("default/") == 50
    assert lines[0].endswith(")")
    assert (len(lines), lines[-1]) == (51, "node a: label 9 is nothing, listed x")


def test_a_pod_that_is_listed_without_its_node_is_misplaced() -> None:
    cluster = cluster_of([make_node("a")], [make_pod("web", "a")])
    differences = compare(cluster, cluster_of([make_node("a")], [make_pod("web")]))
    assert differences.misplaced_pods == ["default/web (uid-of-web) is on a, listed on no node"]

"""Times the search for victims: python -m bench.preemption.

The first table compares it with kube-scheduler's preemption (`kubecycle cycle`, class preempt) on the same cluster,
where a pod of 30 cores needs several victims on any node. The service tries all nodes, kube-scheduler a sample. The
second table has the growth of the time with the number of victims, on full nodes.
"""

import statistics
import time

import numpy as np
from msgspec import structs

from bench import clusters, synthetic
from bench.decision import default_profile
from bench.figures import Row, Times, alternately, compared
from bench.programs import ALL_NODES, ClusterSize
from bench.run import Run, main
from extender_service.cluster.state.cluster import Cluster
from extender_service.framework.preemption.candidates import best_candidates
from extender_service.framework.preemption.dry_run import dry_run
from extender_service.framework.preemption.filtering_again import FilteringAgain
from extender_service.framework.profile import Profile
from extender_service.framework.status import Code
from extender_service.kube.types.core import (
    Container,
    ContainerPort,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from extender_service.scheduling.asked_nodes import AllNodes
from extender_service.scheduling.decision import decide
from extender_service.scheduling.question import Question


def run(the: Run) -> None:
    """Print a table beside kube-scheduler, and one of how the time grows."""
    size = ClusterSize(500 if the.quick else 5000, images=3)
    cluster = clusters.load(the.peers, size)
    profile = default_profile(cluster)
    pod = clusters.pending_pod(the.peers, synthetic.PREEMPTOR)
    searches = 5 if the.quick else 20

    def ours() -> list[Times]:
        return [Times.of([_search(profile, cluster, pod)[0] for _ in range(searches)])]

    def theirs() -> list[Times]:
        if the.peers is None:
            return []
        options = (f"-classes={synthetic.PREEMPTOR}", f"-min-reps={searches}", "-budget=0.5s")
        [line] = the.peers.cycle(size, ALL_NODES, *options)
        return [Times(line["pf_p50_ms"], line["pf_p99_ms"])]

    mine, stock = alternately(the.rounds, ours, theirs)
    peers = [times for found in stock for times in found]
    candidates = _search(profile, cluster, pod)[1]
    figures = compared(Times.over([times for [times] in mine]), Times.over(peers) if peers else None, 1.0)
    the.report.table(
        "preemption",
        f"{size.nodes} nodes, {cluster.pod_count} pods of lower priority; the service tries all, kube-scheduler some",
        [{"nodes": size.nodes, "candidates": candidates, **figures}],
    )
    the.report.table("preemption", f"{size.nodes} full nodes, all tried", _growth(size.nodes))


def _search(profile: Profile, cluster: Cluster, pod: Pod) -> tuple[float, int]:
    """Return the milliseconds from "no node fits" to the best victims, and the number of nodes with victims."""
    nodes = cluster.view(None)
    decision = decide(profile, Question(pod, AllNodes(nodes), must_score=False))
    assert not len(decision.feasible)
    started = time.perf_counter()
    hopeful = np.flatnonzero(decision.verdicts.rejected_with(Code.UNSCHEDULABLE))
    tried = dry_run(cluster, pod, nodes.at(hopeful), FilteringAgain(profile, decision.state, pod, ()))
    best = best_candidates(cluster.pods, tried.candidates)
    assert len(best)
    return (time.perf_counter() - started) * 1000, len(tried.candidates)


def _growth(nodes: int) -> list[Row]:
    rows: list[Row] = []
    for pods_per_node in (10, 30, 110):
        cluster = full_cluster(nodes, pods_per_node)
        clusters.settle()
        profile = default_profile(cluster)
        for victims, why, port in ((1, "one core", 0), (1, "a host port", 8080), (pods_per_node, "all cores", 0)):
            pod = pending_pod(victims, port)
            taken = statistics.median(_search(profile, cluster, pod)[0] for _ in range(3))
            rows.append(
                {
                    "pods a node": pods_per_node,
                    "the pod needs": why,
                    "victims a node": victims,
                    "p50": taken,
                    "microseconds a pod of lower priority": taken * 1000 / (nodes * pods_per_node),
                }
            )
    return rows


def full_cluster(nodes: int, pods_per_node: int) -> Cluster:
    """Return a cluster of full nodes: pods of one CPU each use all CPUs. The first pod of a node has a host port."""
    cluster = Cluster()
    for number in range(nodes):
        name = f"node-{number}"
        allocatable = {"cpu": str(pods_per_node), "memory": "128Gi", "pods": "111"}
        cluster.apply_node(Node(ObjectMeta(name=name), status=NodeStatus(dict(allocatable))))
        for index in range(pods_per_node):
            pod = make_pod(f"pod-{number}-{index}", 1, 0 if index else 8080)
            cluster.apply_pod(
                structs.replace(
                    pod,
                    spec=structs.replace(pod.spec, node_name=name),
                    status=PodStatus(start_time=f"2026-01-01T{index // 60:02}:{index % 60:02}:00Z"),
                )
            )
    return cluster


def pending_pod(cpus: int, port: int = 0) -> Pod:
    """Return a pending pod of high priority."""
    pod = make_pod("pending", cpus, port)
    return structs.replace(pod, spec=structs.replace(pod.spec, priority=1000))


def make_pod(name: str, cpus: int, port: int) -> Pod:
    """Return a pod that requests so many CPUs and a host port; 0 for no port."""
    container = Container(
        ports=(ContainerPort(host_port=port),) if port else (),
        resources=ResourceRequirements({"cpu": str(cpus), "memory": "1Gi"}),
    )
    return Pod(
        ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", labels={"app": "web"}),
        PodSpec(containers=(container,)),
    )


if __name__ == "__main__":
    main("python -m bench.preemption", __doc__, [run])

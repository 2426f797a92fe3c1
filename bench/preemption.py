"""How long finding the victims on all nodes takes: python -m bench.preemption [--nodes 5000] [--pods-per-node 10]."""

import argparse
import statistics
import time

from msgspec import structs

from bench.decision import default_profile
from extender_service.cluster.cluster import Cluster
from extender_service.framework.interface import CycleState
from extender_service.framework.preemption import dry_run
from extender_service.framework.runtime import filter_again, run_pre_filter
from extender_service.kube.objects import (
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

ROUNDS = 5


def main() -> None:
    """Print milliseconds for pods that need little and much of a full node, and a host port of one of its pods."""
    parser = argparse.ArgumentParser(prog="python -m bench.preemption", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods-per-node", type=int, default=10)
    options = parser.parse_args()
    cluster = full_cluster(options.nodes, options.pods_per_node)
    print(
        f"{options.nodes} nodes, {cluster.pod_count} pods of lower priority: milliseconds until all victims are known"
    )
    for kind, pod in (
        ("one victim a node", pending_pod(1)),
        (f"{options.pods_per_node} victims a node", pending_pod(options.pods_per_node)),
        ("a host port", pending_pod(1, 8080)),
    ):
        print(f"{kind:40} {statistics.median(milliseconds(cluster, pod) for _ in range(ROUNDS)):8.1f}")


def full_cluster(nodes: int, pods_per_node: int) -> Cluster:
    """Nodes whose CPUs are all taken, by pods of one CPU each; the first pod of each has a host port."""
    cluster = Cluster()
    for number in range(nodes):
        name = f"node-{number}"
        allocatable = {"cpu": str(pods_per_node), "memory": "64Gi", "pods": "110"}
        cluster.apply_node(Node(ObjectMeta(name=name), status=NodeStatus(dict(allocatable))))
        for index in range(pods_per_node):
            pod = make_pod(f"pod-{number}-{index}", 1, 0 if index else 8080)
            cluster.apply_pod(
                structs.replace(
                    pod,
                    spec=structs.replace(pod.spec, node_name=name),
                    status=PodStatus(start_time=f"2026-01-01T00:00:{index:02}Z"),
                )
            )
    return cluster


def pending_pod(cpus: int, port: int = 0) -> Pod:
    """A pod of high priority."""
    pod = make_pod("pending", cpus, port)
    return structs.replace(pod, spec=structs.replace(pod.spec, priority=1000))


def make_pod(name: str, cpus: int, port: int) -> Pod:
    """A pod that takes whole CPUs and, unless it is 0, a host port."""
    container = Container(
        ports=(ContainerPort(host_port=port),) if port else (),
        resources=ResourceRequirements({"cpu": str(cpus), "memory": "1Gi"}),
    )
    return Pod(
        ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", labels={"app": "web"}),
        PodSpec(containers=(container,)),
    )


def milliseconds(cluster: Cluster, pod: Pod) -> float:
    """Find all victims once."""
    profile = default_profile(cluster)
    state = CycleState(pod)
    run_pre_filter(profile, state, pod)
    started = time.perf_counter()
    found = dry_run(
        cluster,
        pod,
        cluster.view(cluster.nodes.rows_named(cluster.node_names())),
        filter_again(profile, state, pod, []),
    )
    taken = (time.perf_counter() - started) * 1000
    assert len(found.candidates) == cluster.node_count
    return taken


if __name__ == "__main__":
    main()

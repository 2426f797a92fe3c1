"""Times decisions for pods with spreading and affinity: python bench/pod_topology.py [--unique] [--nodes N].

Each decision is taken on the cluster as the one before left it: the pod is placed on the node that was chosen.
"""

import argparse
import gc
import resource
import time
from collections import defaultdict
from statistics import median

import numpy as np
from msgspec import structs

from extender_service.cluster.cluster import Cluster
from extender_service.config.load import default_config
from extender_service.framework.interface import CycleState, Handle
from extender_service.framework.profile import Profile
from extender_service.framework.registry import Registry
from extender_service.framework.runtime import decide
from extender_service.kube.objects import (
    Affinity,
    Container,
    LabelSelector,
    Node,
    NodeStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    ResourceRequirements,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from extender_service.kube.workloads import ReplicaSet, ReplicaSetSpec, Service, ServiceSpec
from extender_service.plugins.default_plugins import ABSENT, IN_TREE

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
PODS_PER_NODE = 30
APPS = 300


def make_cluster(node_count: int, *, unique: bool, with_affinity: int) -> Cluster:
    cluster = Cluster()
    for number in range(node_count):
        cluster.apply_node(
            Node(
                ObjectMeta(name=f"node-{number}", labels={HOSTNAME: f"node-{number}", ZONE: f"zone-{number % 3}"}),
                status=NodeStatus({"cpu": "64", "memory": "256Gi", "pods": "110"}),
            )
        )
    for app in range(APPS):
        cluster.workloads.apply(Service(ObjectMeta(name=f"app-{app}", namespace="default"), ServiceSpec({"app": f"app-{app}"})))
        selector = LabelSelector({"app": f"app-{app}"})
        cluster.workloads.apply(ReplicaSet(ObjectMeta(name=f"app-{app}", namespace="default"), ReplicaSetSpec(selector)))
    for number in range(node_count * PODS_PER_NODE):
        cluster.apply_pod(running_pod(number, node_count, unique=unique, has_affinity=number < with_affinity))
    return cluster


def running_pod(number: int, node_count: int, *, unique: bool, has_affinity: bool) -> Pod:
    app = f"app-{number % APPS}"
    affinity = None
    if has_affinity:
        term = PodAffinityTerm(HOSTNAME, LabelSelector({"app": app}))
        near = PodAffinityTerm(ZONE, LabelSelector({"app": f"app-{(number + 1) % APPS}"}))
        affinity = Affinity(
            pod_affinity=PodAffinity(preferred=(WeightedPodAffinityTerm(10, near),)),
            pod_anti_affinity=PodAffinity(required=(term,)),
        )
    return make_pod(f"pod-{number}", app, f"node-{number * 7919 % node_count}", unique=unique, affinity=affinity)


def make_pod(name: str, app: str, node: str = "", *, unique: bool = False, affinity: Affinity | None = None) -> Pod:
    labels = {"app": app, "tier": "backend", "pod-template-hash": f"hash-of-{app}"}
    if unique:
        labels["statefulset.kubernetes.io/pod-name"] = name
    return Pod(
        ObjectMeta(name=name, namespace="default", uid=f"uid-of-{name}", labels=labels),
        PodSpec(
            node_name=node,
            scheduler_name="default-scheduler",
            affinity=affinity,
            containers=(Container(resources=ResourceRequirements({"cpu": "100m", "memory": "128Mi"})),),
        ),
    )


def pending_pods() -> dict[str, Pod]:
    plain = make_pod("plain", "lonely")
    web = make_pod("web", "app-7")
    selector = LabelSelector({"app": "app-7"})
    owner = OwnerReference("apps/v1", "ReplicaSet", "app-7", "uid", controller=True)
    spread = tuple(TopologySpreadConstraint(1000, key, "DoNotSchedule", selector) for key in (ZONE, HOSTNAME))
    soft = tuple(TopologySpreadConstraint(1, key, "ScheduleAnyway", selector) for key in (ZONE, HOSTNAME))
    apart = PodAffinity(required=(PodAffinityTerm(HOSTNAME, LabelSelector({"app": "nobody"})),))
    near = PodAffinity(
        required=(PodAffinityTerm(ZONE, selector),),
        preferred=(WeightedPodAffinityTerm(50, PodAffinityTerm(ZONE, LabelSelector({"app": "app-8"}))),),
    )
    return {
        "plain": plain,
        "default spread": structs.replace(web, metadata=structs.replace(web.metadata, owner_references=(owner,))),
        "hard spread": structs.replace(web, spec=structs.replace(web.spec, topology_spread_constraints=spread)),
        "soft spread": structs.replace(web, spec=structs.replace(web.spec, topology_spread_constraints=soft)),
        "anti-affinity": structs.replace(web, spec=structs.replace(web.spec, affinity=Affinity(pod_anti_affinity=apart))),
        "affinity": structs.replace(web, spec=structs.replace(web.spec, affinity=Affinity(pod_affinity=near))),
    }


def time_decisions(cluster: Cluster, profile: Profile, pod: Pod, rounds: int = 60) -> tuple[float, float]:
    """Milliseconds of the first decision and of the median one."""
    seconds = []
    for number in range(rounds):
        nodes = cluster.view(None)
        start = time.perf_counter()
        decision = decide(profile, pod, nodes, nodes.exists, score=True)
        chosen = decision.choose()
        seconds.append(time.perf_counter() - start)
        named = structs.replace(pod, metadata=structs.replace(pod.metadata, name=f"{pod.metadata.name}-{number}", uid=f"u{number}"))
        cluster.apply_pod(structs.replace(named, spec=structs.replace(named.spec, node_name=nodes.names[chosen])))
    for number in range(rounds):
        cluster.remove_pod(("default", f"{pod.metadata.name}-{number}"))
    return seconds[0] * 1000, median(seconds[1:]) * 1000


def time_plugins(cluster: Cluster, profile: Profile, pod: Pod, names: tuple[str, ...]) -> dict[str, float]:
    """Milliseconds per plugin, of all its extension points together."""
    spent: dict[str, list[float]] = defaultdict(list)
    for _ in range(30):
        state, nodes = CycleState(pod), cluster.view(None)
        for plugin in {*profile.pre_filter, *profile.filter, *profile.pre_score}:
            if plugin.name not in names:
                continue
            start = time.perf_counter()
            if plugin.pre_filter(state, pod) is None:
                plugin.filter(state, pod, nodes)
            if plugin.pre_score(state, pod, nodes) is None:
                plugin.normalize(state, pod, nodes, plugin.score(state, pod, nodes))
            spent[plugin.name].append(time.perf_counter() - start)
    return {name: median(times) * 1000 for name, times in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--unique", action="store_true", help="give each pod labels of its own")
    parser.add_argument("--nodes", type=int, action="append")
    options = parser.parse_args()
    for node_count in options.nodes or [100, 1000, 5000]:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.perf_counter()
        cluster = make_cluster(node_count, unique=options.unique, with_affinity=2000)
        profile = Registry(IN_TREE, ABSENT).profiles(default_config(), Handle(cluster))["default-scheduler"]
        gc.collect()
        gc.freeze()
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        print(f"{node_count} nodes, {cluster.pod_count} pods: {time.perf_counter() - start:.1f} s, {grown:.0f} MiB")
        for name, pod in pending_pods().items():
            first, steady = time_decisions(cluster, profile, pod)
            of_plugins = time_plugins(cluster, profile, pod, ("PodTopologySpread", "InterPodAffinity"))
            parts = ", ".join(f"{plugin} {ms:.3f}" for plugin, ms in sorted(of_plugins.items()))
            print(f"  {name:15} first {first:6.2f} ms, steady {steady:.3f} ms ({parts})")


if __name__ == "__main__":
    main()

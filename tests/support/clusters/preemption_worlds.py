"""Small clusters for preemption: pods of several priorities, disruption budgets, and a pod that needs room."""

from collections.abc import Sequence

from msgspec import structs

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.config.loading import default_config
from extender_service.config.rules import DEFAULT_RULES, Rules
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import FilterAgain
from extender_service.framework.preemption.filtering_again import FilteringAgain
from extender_service.framework.registry.registry import Registry
from extender_service.framework.runtime import run_pre_filter
from extender_service.kube.types.core import LabelSelector, ObjectMeta, Pod
from extender_service.kube.types.policy import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE
from tests.support.objects import make_node, make_pod


def running(name: str, node: str, *, priority: int, cpu: int, started: int, app: str, ports: Sequence[int] = ()) -> Pod:
    pod = make_pod(name, node, requests={"cpu": str(cpu)}, ports=ports)
    return structs.replace(
        pod,
        metadata=structs.replace(pod.metadata, labels={"app": app}),
        spec=structs.replace(pod.spec, priority=priority),
        status=structs.replace(pod.status, start_time=f"2026-01-01T00:00:{started:02}Z"),
    )


def preemptor(cpu: int, *, priority: int = 10, ports: Sequence[int] = ()) -> Pod:
    pod = make_pod("preemptor", requests={"cpu": str(cpu)}, ports=ports)
    return structs.replace(pod, spec=structs.replace(pod.spec, priority=priority, scheduler_name="default-scheduler"))


def budget(name: str, app: str, allowed: int, disrupted: Sequence[str] = ()) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        ObjectMeta(name=name, namespace="default"),
        PodDisruptionBudgetSpec(LabelSelector({"app": app})),
        PodDisruptionBudgetStatus(allowed, dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")),
    )


def preemption_cluster(
    pods: Sequence[Pod], budgets: Sequence[PodDisruptionBudget] = (), nodes: str = "abc", rules: Rules = DEFAULT_RULES
) -> Cluster:
    cluster = Cluster(rules)
    for name in nodes:
        cluster.apply_node(make_node(name, {"cpu": "4", "pods": "10"}))
    for pod in pods:
        cluster.apply_pod(pod)
    for item in budgets:
        cluster.workloads.apply(item)
    return cluster


def judging(cluster: Cluster, pod: Pod) -> FilterAgain:
    handle = Handle(cluster, ClusterFile(cluster, []))
    registry = Registry(IN_TREE, rules=cluster.rules)
    profile = registry.profiles(default_config(ARGS_TYPES, cluster.rules), handle)["default-scheduler"]
    state = CycleState(pod, rules=cluster.request_rules)
    run_pre_filter(profile, state, pod)
    return FilteringAgain(profile, state, pod, cluster.nominated_for(pod, ["default-scheduler"]))

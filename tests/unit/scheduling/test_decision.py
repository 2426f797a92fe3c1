"""Decisions about nodes with nominated pods: these are judged with and without them. Refusals without a plugin."""

from typing import Any

import pytest
from msgspec import structs

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.config.loading import default_config
from extender_service.framework.handle import Handle
from extender_service.framework.plugin_errors import NoTimeLeftError
from extender_service.framework.registry.registry import Registry
from extender_service.framework.status import unresolvable
from extender_service.kube.types.core import Affinity, LabelSelector, Pod, PodAffinity, PodAffinityTerm
from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE
from extender_service.scheduling.asked_nodes import AllNodes
from extender_service.scheduling.decision import Decision, decide, refuse
from extender_service.scheduling.question import Question
from tests.support.clock import Clock
from tests.support.objects import make_node, make_pod

HOSTNAME = "kubernetes.io/hostname"


def with_spec(pod: Pod, **spec: Any) -> Pod:
    return structs.replace(pod, spec=structs.replace(pod.spec, scheduler_name="default-scheduler", **spec))


def decided(cluster: Cluster, pod: Pod, nodes: NodeView | None = None, *, score: bool = False) -> Decision:
    profile = Registry(IN_TREE).profiles(default_config(ARGS_TYPES), Handle(cluster, ClusterFile(cluster, [])))
    nodes = cluster.view(None) if nodes is None else nodes
    nominated = cluster.nominated_for(pod, profile)
    return decide(profile["default-scheduler"], Question(pod, AllNodes(nodes), must_score=score), nominated=nominated)


def feasible(cluster: Cluster, pod: Pod, nodes: NodeView | None = None) -> set[str]:
    decision = decided(cluster, pod, nodes)
    return {decision.verdicts.view.names[position] for position in decision.feasible}


def cluster_of(*pods: Pod) -> Cluster:
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.apply_node(make_node(name, {"cpu": "4", "pods": "10"}, labels={HOSTNAME: name}))
    for pod in pods:
        cluster.apply_pod(pod)
    return cluster


def test_a_nominated_pod_takes_its_room_from_others() -> None:
    cluster = cluster_of(with_spec(make_pod("first", nominated="a", requests={"cpu": "3"})))
    assert feasible(cluster, make_pod("second", requests={"cpu": "2"})) == {"b"}
    statuses = {names: status.reasons for status, names in reasons(cluster, make_pod("second", requests={"cpu": "2"}))}
    assert statuses == {("a",): ("Insufficient cpu",)}


def reasons(cluster: Cluster, pod: Pod) -> list[tuple[Any, tuple[str, ...]]]:
    verdicts = decided(cluster, pod).verdicts
    names = verdicts.view.names
    return [(status, tuple(names[position] for position in positions)) for status, positions in verdicts.groups()]


def test_a_node_that_fits_only_once_a_nominated_pod_is_there_does_not_fit() -> None:
    """The nominated pod may not come after all: affinity to it is no reason to go there."""
    friend = PodAffinityTerm(HOSTNAME, LabelSelector({"app": "friend"}))
    near = Affinity(pod_affinity=PodAffinity(required=(friend,)))
    here = make_pod("here", "b")
    there = with_spec(make_pod("there", nominated="a"))
    friends = [
        structs.replace(pod, metadata=structs.replace(pod.metadata, labels={"app": "friend"})) for pod in (here, there)
    ]
    assert feasible(cluster_of(*friends), with_spec(make_pod("web"), affinity=near)) == {"b"}


def test_scores_know_nothing_of_nominated_pods() -> None:
    cluster = cluster_of(with_spec(make_pod("first", nominated="a", requests={"cpu": "1"})))
    totals = decided(cluster, make_pod("second", requests={"cpu": "1"}), score=True).totals
    assert totals is not None
    assert len(set(totals.tolist())) == 1


def test_a_nominated_pod_counts_on_a_node_that_only_the_call_has() -> None:
    cluster = cluster_of(
        with_spec(make_pod("first", nominated="new", requests={"cpu": "3"})),
        with_spec(make_pod("second", nominated="a", requests={"cpu": "3"})),
    )
    table = cluster.with_nodes([make_node("new", {"cpu": "4", "pods": "10"})])
    nodes = cluster.view(None, table)
    assert feasible(cluster, make_pod("third", requests={"cpu": "2"}), nodes) == {"b"}
    assert feasible(cluster, make_pod("third", requests={"cpu": "1"}), nodes) == {"a", "b", "new"}


def test_the_deadline_of_a_refusal_is_in_seconds_of_the_profile_s_clock() -> None:
    cluster, clock = cluster_of(), Clock()
    handle = Handle(cluster, ClusterFile(cluster, []), clock=clock)
    profile = Registry(IN_TREE).profiles(default_config(ARGS_TYPES), handle)["default-scheduler"]
    question = Question(make_pod("web"), AllNodes(cluster.view(None)), deadline=clock() + 1)
    state = refuse(profile, question, unresolvable("not judged")).state
    state.require_time()
    clock.pass_seconds(2)
    with pytest.raises(NoTimeLeftError):
        state.require_time()

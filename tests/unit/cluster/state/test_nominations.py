import pytest
from msgspec import structs

from extender_service.cluster.state.cluster import Cluster
from extender_service.config.rules import rules_of
from extender_service.kube.types.core import Pod, PodSchedulingGate
from tests.support.objects import make_node, make_pod

SCHEDULERS = ["default-scheduler"]


def nominated(name: str, node: str = "a", **spec: object) -> Pod:
    pod = make_pod(name, nominated=node)
    return structs.replace(pod, spec=structs.replace(pod.spec, **{"scheduler_name": "default-scheduler", **spec}))


def judged(priority: int = 0, name: str = "judged") -> Pod:
    pod = make_pod(name)
    return structs.replace(pod, spec=structs.replace(pod.spec, priority=priority))


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.apply_node(make_node("a"))
    return cluster


def names_for(cluster: Cluster, pod: Pod) -> list[str]:
    return [cluster.pods[nomination.slot].name for nomination in cluster.nominated_for(pod, SCHEDULERS)]


def test_nominated_pods_of_the_same_or_higher_priority_count(cluster: Cluster) -> None:
    for name, priority in (("lower", 1), ("same", 2), ("higher", 3)):
        cluster.apply_pod(nominated(name, priority=priority))
    assert names_for(cluster, judged(priority=2)) == ["same", "higher"]


def test_gated_pods_count_in_later_releases() -> None:
    for minor, expected in (36, []), (37, ["gated"]):
        cluster = Cluster(rules_of(minor))
        cluster.apply_node(make_node("a"))
        cluster.apply_pod(nominated("gated", scheduling_gates=(PodSchedulingGate("g"),)))
        assert names_for(cluster, judged()) == expected


def test_a_pod_does_not_stand_in_its_own_way(cluster: Cluster) -> None:
    cluster.apply_pod(nominated("web"))
    assert names_for(cluster, judged(name="web")) == []


def test_gated_pods_and_those_of_other_schedulers_do_not_count(cluster: Cluster) -> None:
    cluster.apply_pod(nominated("gated", scheduling_gates=(PodSchedulingGate("wait"),)))
    cluster.apply_pod(nominated("foreign", scheduler_name="another"))
    assert names_for(cluster, judged()) == []
    cluster.apply_pod(nominated("gated"))
    assert names_for(cluster, judged()) == ["gated"]


def test_a_nomination_ends_when_the_pod_is_bound_renominated_or_gone(cluster: Cluster) -> None:
    cluster.apply_pod(nominated("web"))
    cluster.apply_pod(nominated("web", "b"))
    assert [nomination.node_name for nomination in cluster.nominated_for(judged(), SCHEDULERS)] == ["b"]
    cluster.apply_pod(nominated("web", "b", node_name="b"))
    assert names_for(cluster, judged()) == []
    cluster.apply_pod(nominated("other"))
    cluster.remove_pod(("default", "other"))
    assert names_for(cluster, judged()) == []
    assert len(cluster.nominations) == 0


def test_a_nominated_pod_that_counts_on_a_node_already_does_not_count_twice(cluster: Cluster) -> None:
    pod = nominated("web")
    cluster.apply_pod(pod)
    cluster.placements.place(pod, pod.metadata.uid, "a")
    assert names_for(cluster, judged()) == []

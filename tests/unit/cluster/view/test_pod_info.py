from msgspec import structs

from extender_service.cluster.view.pod_info import PodInfo
from extender_service.kube.types.core import Pod
from extender_service.testing import make_node, make_pod
from tests.support.objects import cluster_of


def shown(pod: Pod) -> PodInfo:
    [info] = cluster_of([make_node("a")], [pod]).view(None).pods_at(0)
    return info


def test_a_pod_has_what_rules_about_neighbours_look_at() -> None:
    pod = make_pod(
        "train",
        {"cpu": "1500m", "memory": "1Ki", "nvidia.com/gpu": 2},
        namespace="ml",
        labels={"app": "train"},
        node_name="a",
        priority=7,
    )
    info = shown(pod)
    assert (info.namespace, info.name, info.uid) == ("ml", "train", "ml/train")
    assert (info.labels, info.priority, info.terminating) == ({"app": "train"}, 7, False)
    assert info.requests == {"cpu": 1500, "memory": 1024, "nvidia.com/gpu": 2}


def test_a_pod_that_is_being_deleted_is_still_there() -> None:
    pod = make_pod("web", node_name="a")
    going = structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    assert shown(structs.replace(pod, metadata=going)).terminating


def test_the_slot_is_that_of_the_pod() -> None:
    pods = [make_pod("web", node_name="a"), make_pod("db", node_name="b")]
    cluster = cluster_of([make_node("a"), make_node("b")], pods)
    [info] = cluster.view(None).pods_at(1)
    assert info.slot == cluster.slot_on("default/db", "b")

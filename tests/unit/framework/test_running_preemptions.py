"""A pod is kept out of the queue until its last victim goes, and no longer."""

import msgspec

from extender_service.cluster.state.cluster import Cluster
from extender_service.framework.running_preemptions import RunningPreemptions
from extender_service.kube.types.core import Pod
from tests.support.objects import cluster_of, make_node, make_pod, watched

VICTIM = make_pod("victim", "a")


def terminating(pod: Pod) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(pod, metadata=metadata)


def test_a_pod_waits_from_the_beginning_to_the_end_of_its_preemption() -> None:
    preemptions = RunningPreemptions(Cluster())
    assert not preemptions.is_running("p")
    running = preemptions.begin("p")
    assert preemptions.is_running("p")
    assert not preemptions.is_running("other")
    preemptions.end("p", running)
    assert not preemptions.is_running("p")


def test_a_pod_waits_for_its_last_victim_until_that_is_being_deleted() -> None:
    cluster = cluster_of([make_node("a")], [VICTIM])
    preemptions = RunningPreemptions(cluster)
    preemptions.begin("p").last_victim = ("default", "victim")
    assert preemptions.is_running("p")
    cluster.apply_pod(watched(terminating(VICTIM)))
    assert not preemptions.is_running("p")


def test_a_pod_does_not_wait_for_a_last_victim_that_is_gone() -> None:
    cluster = cluster_of([make_node("a")], [VICTIM])
    preemptions = RunningPreemptions(cluster)
    preemptions.begin("p").last_victim = ("default", "victim")
    cluster.remove_pod(("default", "victim"))
    assert not preemptions.is_running("p")


def test_the_end_of_an_earlier_preemption_leaves_a_later_one_running() -> None:
    preemptions = RunningPreemptions(Cluster())
    earlier = preemptions.begin("p")
    later = preemptions.begin("p")
    preemptions.end("p", earlier)
    assert preemptions.is_running("p")
    preemptions.end("p", later)
    assert not preemptions.is_running("p")

import msgspec

from extender_service.kube.types.core import Pod, PodStatus
from extender_service.queue.nominator import NominatedPod, Nominator
from tests.support.clusters.queue_worlds import queue_pod

A = NominatedPod("default/a", "uid-of-a")
B = NominatedPod("default/b", "uid-of-b")


def nominated(pod: Pod, node: str) -> Pod:
    """The pod with a nominated node in its status."""
    return msgspec.structs.replace(pod, status=PodStatus(nominated_node_name=node))


def test_pods_are_on_their_node_in_the_order_in_which_they_came() -> None:
    nominator = Nominator(lambda _: True)
    nominator.add(queue_pod("a"), "node")
    nominator.add(queue_pod("b"), "node")
    assert nominator.on_node("node") == [A, B]
    assert nominator.node_of == {"uid-of-a": "node", "uid-of-b": "node"}
    assert nominator.on_node("other") == []


def test_a_new_node_replaces_the_old_one() -> None:
    nominator = Nominator(lambda _: True)
    nominator.add(queue_pod("a"), "old")
    nominator.add(queue_pod("a"), "new")
    assert (nominator.on_node("old"), nominator.on_node("new")) == ([], [A])


def test_without_a_name_the_status_counts() -> None:
    nominator = Nominator(lambda _: True)
    nominator.add(nominated(queue_pod("a"), "node"))
    nominator.add(queue_pod("b"))
    assert nominator.node_of == {"uid-of-a": "node"}


def test_a_pod_that_is_gone_or_on_a_node_is_not_nominated() -> None:
    nominator = Nominator(lambda key: key == "default/b")
    nominator.add(queue_pod("a"), "node")
    nominator.add(queue_pod("b"), "node")
    assert nominator.on_node("node") == [B]


def test_an_update_that_is_older_than_the_nomination_leaves_it() -> None:
    nominator = Nominator(lambda _: True)
    pod = queue_pod("a")
    nominator.add(pod, "node")
    nominator.update(pod, pod)
    assert nominator.on_node("node") == [A]


def test_an_update_that_clears_or_changes_the_status_counts() -> None:
    nominator = Nominator(lambda _: True)
    pod = queue_pod("a")
    nominator.add(pod, "node")
    nominator.update(nominated(pod, "node"), nominated(pod, "other"))
    assert nominator.node_of == {"uid-of-a": "other"}
    nominator.update(nominated(pod, "other"), pod)
    assert nominator.node_of == {}
    assert nominator.on_node("other") == []


def test_removing_twice_is_as_once() -> None:
    nominator = Nominator(lambda _: True)
    nominator.add(queue_pod("a"), "node")
    nominator.remove(queue_pod("a"))
    nominator.remove(queue_pod("a"))
    assert nominator.on_node("node") == []


def test_decisions_look_at_no_pod_that_is_nominated_for_the_empty_name() -> None:
    nominator = Nominator(lambda _: True)
    for number in range(1000):
        nominator.add(queue_pod(f"p{number}"), "")
    nominator.add(queue_pod("a"), "node")
    assert len(nominator.node_of) == 1001
    assert dict(nominator.on_nodes()) == {"uid-of-a": "node"}
    nominator.remove(queue_pod("a"))
    assert dict(nominator.on_nodes()) == {}

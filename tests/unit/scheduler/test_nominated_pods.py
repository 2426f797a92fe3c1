from random import Random
from types import SimpleNamespace
from typing import cast

import pytest
from msgspec import structs

from extender_service.cluster.state.cluster import Cluster
from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.pods import pod_uid
from extender_service.queue.nominator import Nominator
from extender_service.queue.scheduling_queue import SchedulingQueue
from extender_service.scheduler.nominated_pods import nominations
from tests.support.objects import make_node, make_pod

NODES = ("a", "b", "c", "later")


def of(name: str, node: str = "", *, priority: int = 0, app: str = "web") -> Pod:
    pod = make_pod(name, node)
    metadata = structs.replace(pod.metadata, labels={"app": app})
    return structs.replace(pod, metadata=metadata, spec=structs.replace(pod.spec, priority=priority))


class World:
    def __init__(self) -> None:
        self.cluster = Cluster()
        self.pending: dict[str, Pod] = {}
        self.nominator = Nominator(self.pending.__contains__)
        queue = cast("SchedulingQueue", SimpleNamespace(nominator=self.nominator))
        self._nominated_for = nominations(self.cluster, queue)
        for name in NODES[:3]:
            self.cluster.apply_node(make_node(name))

    def see(self, pod: Pod) -> Pod:
        self.cluster.apply_pod(pod)
        if pod.spec.node_name:
            self.pending.pop(pod_name(pod), None)
        else:
            self.pending[pod_name(pod)] = pod
        return pod

    def remove(self, pod: Pod) -> None:
        self.cluster.remove_pod((pod.metadata.namespace, pod.metadata.name))
        self.pending.pop(pod_name(pod), None)

    def counting(self, pod: Pod) -> list[tuple[str, str]]:
        """Return the name and node of each nominated pod that counts, on a node that exists."""
        found = self._nominated_for(pod)
        names = self.cluster.nodes.names
        if not found:
            return []
        return [
            (self.cluster.pods[slot].name, names[row])
            for slot, row in zip(found.slots.tolist(), found.rows.tolist(), strict=True)
            if row >= 0
        ]

    def expected(self, pod: Pod) -> list[tuple[str, str]]:
        """Return the same, looked up one by one."""
        found = []
        for uid, node in self.nominator.on_nodes():
            facts = self.cluster.pod(uid)
            is_counted = facts is not None and not facts.node_name and self.cluster.placements.get(uid) is None
            if facts is None or not is_counted or uid == pod_uid(pod) or not self.cluster.nodes.is_node(node):
                continue
            slot = self.cluster.slot_of(facts.key)
            assert slot is not None
            if self.cluster.pods.priority[slot] >= pod.spec.priority:
                found.append((facts.name, node))
        return found


@pytest.fixture
def world() -> World:
    return World()


def test_others_of_the_same_or_a_higher_priority_count(world: World) -> None:
    for name, priority in (("lower", 1), ("same", 2), ("higher", 3)):
        world.nominator.add(world.see(of(name, priority=priority)), "a")
    assert world.counting(of("judged", priority=2)) == [("same", "a"), ("higher", "a")]
    assert world.counting(of("same", priority=2)) == [("higher", "a")]


def test_a_nomination_for_no_node_counts_nowhere(world: World) -> None:
    pod = world.see(of("web"))
    world.nominator.add(pod, "")
    assert world.counting(of("judged")) == []
    world.nominator.add(pod, "b")
    assert world.counting(of("judged")) == [("web", "b")]
    world.nominator.add(pod, "")
    assert world.counting(of("judged")) == []


def test_a_pod_that_requests_something_else_counts_as_it_is_now(world: World) -> None:
    world.nominator.add(world.see(of("web")), "a")
    assert world.counting(of("judged")) == [("web", "a")]
    world.see(of("web", app="other"))
    world.see(of("another"))  # takes the slot that the first version had
    found = world._nominated_for(of("judged"))
    assert found
    [slot] = found.slots.tolist()
    assert world.cluster.slot_of(("default", "web")) == slot


def test_many_changes_between_two_attempts(world: World) -> None:
    pods = [world.see(of(f"pod-{number}")) for number in range(300)]
    for node in ("a", "b", "c"):
        for pod in pods:
            world.nominator.add(pod, node)
        assert sorted(world.counting(of("judged"))) == sorted((pod.metadata.name, node) for pod in pods)
    for pod in pods[1:]:
        for _ in range(5):
            world.nominator.add(pod, "b")
    assert sorted(world.counting(of("judged"))) == sorted(world.expected(of("judged")))


@pytest.mark.parametrize("seed", range(8))
def test_random_histories(world: World, seed: int) -> None:
    random = Random(seed)
    for _ in range(600):
        change_something(world, random)
        judged = of(f"pod-{random.randrange(12)}", priority=random.randrange(3))
        # In the order in which they were nominated, on each node.
        assert by_node(world.counting(judged)) == by_node(world.expected(judged))


def change_something(world: World, random: Random) -> None:
    name = f"pod-{random.randrange(12)}"
    pod = world.pending.get(f"default/{name}")
    what = random.randrange(8)
    if pod is None or what == 0:
        node = random.choice(NODES) if random.random() < 0.2 else ""
        world.see(of(name, node, priority=random.randrange(3), app=random.choice(("web", "other"))))
    elif what < 4:
        world.nominator.add(pod, random.choice((*NODES, "")))
    elif what == 4:
        world.nominator.remove(pod)
    elif what == 5:
        world.remove(pod)
    elif what == 6:
        world.cluster.drop_placement(pod_uid(pod))
        if random.random() < 0.5:
            world.cluster.placements.place(pod, pod_uid(pod), "a")
    else:
        node = random.choice(NODES)
        if world.cluster.nodes.is_node(node):
            world.cluster.remove_node(node)
        else:
            world.cluster.apply_node(make_node(node))


def by_node(found: list[tuple[str, str]]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for name, node in found:
        names.setdefault(node, []).append(name)
    return names

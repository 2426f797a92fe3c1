from collections.abc import Callable, Collection
from random import Random

import pytest
from msgspec import structs

from extender_service.cluster.state.changes import Change
from extender_service.cluster.state.cluster import Cluster
from extender_service.config.rules import rules_of
from extender_service.kube.types.core import Pod, PodSchedulingGate
from extender_service.kube.types.keys import Key
from tests.support.objects import make_container, make_node, make_pod

SCHEDULERS = ["default-scheduler"]
ONE_CPU = (make_container({"cpu": "1"}),)


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


def counting(cluster: Cluster, pod: Pod, schedulers: Collection[str] = SCHEDULERS) -> list[tuple[str, str]]:
    """The names of the pods that count, with their nodes."""
    found = cluster.nominated_for(pod, schedulers)
    if not found:
        return []
    elsewhere = iter(found.names)
    nodes = [cluster.nodes.names[row] if row >= 0 else next(elsewhere) for row in found.rows.tolist()]
    return [(cluster.pods[slot].name, node) for slot, node in zip(found.slots.tolist(), nodes, strict=True)]


def names_for(cluster: Cluster, pod: Pod) -> list[str]:
    return [name for name, _ in counting(cluster, pod)]


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
    assert counting(cluster, judged()) == [("web", "b")]
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


def test_the_nominations_of_a_node_are_known_by_it(cluster: Cluster) -> None:
    for name, node in (("one", "a"), ("two", "b"), ("three", "a")):
        cluster.apply_pod(nominated(name, node))
    assert [each.uid for each in cluster.nominations.on_node("a")] == ["uid-of-one", "uid-of-three"]
    cluster.apply_pod(nominated("one", "b"))
    cluster.remove_pod(("default", "three"))
    assert cluster.nominations.on_node("a") == []
    assert [each.uid for each in cluster.nominations.on_node("b")] == ["uid-of-two", "uid-of-one"]


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        (lambda cluster: cluster.apply_pod(nominated("web", priority=5, containers=ONE_CPU)), True),
        (lambda cluster: cluster.apply_pod(make_pod("other")), True),
        (lambda cluster: cluster.apply_pod(nominated("web", containers=())), False),
        (lambda cluster: cluster.apply_pod(nominated("other")), False),
        (lambda cluster: cluster.apply_pod(nominated("web", "b", containers=ONE_CPU)), False),
        (lambda cluster: cluster.remove_pod(("default", "web")), False),
    ],
    ids=["another priority", "a pod that is not nominated", "requests", "one more", "another node", "none"],
)
def test_what_counts_can_be_compared(cluster: Cluster, change: Callable[[Cluster], None], *, is_same: bool) -> None:
    cluster.apply_node(make_node("b"))
    cluster.apply_pod(nominated("web", containers=ONE_CPU))
    before = cluster.nominated_for(judged(), SCHEDULERS)
    change(cluster)
    assert (cluster.nominated_for(judged(), SCHEDULERS) == before) == is_same


class Histories:
    """Pods come, change and go; `shown` are those that the watch shows."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = Cluster(rules_of(self.random.choice((36, 37))))
        self.shown: dict[str, Pod] = {}

    def change(self) -> None:
        random, cluster = self.random, self.cluster
        name = f"pod-{random.randrange(12)}"
        pod, uid = self.shown.get(name), f"uid-of-{name}"
        what = random.randrange(9)
        if pod is None or what < 4:
            pod = nominated(
                name,
                random.choice(("a", "b", "c", "")),
                node_name=random.choice(("a", "", "", "")),
                priority=random.randrange(3),
                scheduler_name=random.choice((*SCHEDULERS, "mine", "another")),
                scheduling_gates=random.choice(((), (), (PodSchedulingGate("wait"),))),
                containers=(make_container({"cpu": random.choice(("1", "2"))}),),
            )
            cluster.apply_pod(pod)
            self.shown[name] = pod
        elif what == 4:
            cluster.remove_pod(("default", name))
            del self.shown[name]
        elif what == 5 and not pod.spec.node_name and not pod.spec.scheduling_gates:
            slot, node = cluster.pending_slot(uid), random.choice(("a", "b"))
            assert slot is not None
            cluster.nominations.nominate_ahead(pod, uid, slot, node)
        elif what == 6:
            cluster.nominations.withdraw(uid, pod.status.nominated_node_name)
        elif what == 7:
            cluster.drop_placement(uid)
            if random.random() < 0.5 and not pod.spec.node_name:
                cluster.placements.place(pod, uid, "a")
        elif cluster.nodes.is_node("b"):
            cluster.remove_node("b")
        else:
            cluster.apply_node(make_node("b"))

    def expected(self, judged: Pod, schedulers: Collection[str]) -> set[tuple[str, str]]:
        """The names and nodes of the nominated pods that count, looked at one by one."""
        found = set()
        for name, pod in self.shown.items():
            node = self.node_of(name)
            is_other = name != judged.metadata.name and self.cluster.placements.get(pod.metadata.uid) is None
            is_heard = pod.spec.priority >= judged.spec.priority and pod.spec.scheduler_name in schedulers
            if node and is_other and is_heard:
                found.add((name, node))
        return found

    def node_of(self, name: str) -> str:
        known = [each for node in "abc" for each in self.cluster.nominations.on_node(node)]
        return next((each.node_name for each in known if each.uid == f"uid-of-{name}"), "")


@pytest.mark.parametrize("seed", range(8))
def test_random_histories(seed: int) -> None:
    histories = Histories(seed)
    random, cluster = histories.random, histories.cluster
    cluster.apply_node(make_node("a"))
    for _ in range(600):
        histories.change()
        pod = judged(random.randrange(3), f"pod-{random.randrange(12)}")
        schedulers = random.choice((SCHEDULERS, [*SCHEDULERS, "mine"], []))
        found = counting(cluster, pod, schedulers)
        assert len(found) == len(set(found))
        assert set(found) == histories.expected(pod, schedulers)


def test_the_end_of_a_nomination_is_told_and_counted(cluster: Cluster) -> None:
    seen: list[tuple[Change, Key]] = []
    cluster.changes.notify = lambda change, key: seen.append((change, key))  # type: ignore[method-assign]
    cluster.apply_pod(nominated("web"))
    counts = [cluster.nominations.change_count]
    cluster.apply_pod(nominated("web", "b"))
    counts.append(cluster.nominations.change_count)
    cluster.apply_pod(make_pod("web"))
    counts.append(cluster.nominations.change_count)
    assert seen == [(Change.NOMINATION_ENDED, ("", "a")), (Change.NOMINATION_ENDED, ("", "b"))]
    assert counts == sorted(set(counts))


def test_a_nominated_pod_that_changes_or_takes_its_room_ends_nothing(cluster: Cluster) -> None:
    seen: list[tuple[Change, Key]] = []
    cluster.apply_pod(nominated("web"))
    cluster.changes.notify = lambda change, key: seen.append((change, key))  # type: ignore[method-assign]
    cluster.apply_pod(nominated("web", containers=ONE_CPU))
    assert cluster.nominations.node_of("uid-of-web") == "a"
    cluster.apply_pod(make_pod("web", "a"))
    assert cluster.nominations.node_of("uid-of-web") == ""
    assert seen == [(Change.POD_ADDED, ("default", "web"))]

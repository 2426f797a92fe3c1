import gc

from extender_service.cluster.state.cluster import Cluster
from extender_service.extender.named_victims import MOST_VICTIMS, NamedVictims
from extender_service.kube.types.extender_api import MetaPod, MetaVictims
from tests.support.objects import make_node, make_pod


def cluster_with_expected(count: int) -> Cluster:
    """Pods with the UIDs 0, 1, … are expected on node a."""
    cluster = Cluster()
    cluster.apply_node(make_node("a"))
    pod = make_pod("web")
    for number in range(count):
        cluster.placements.place(pod, str(number), "a")
    return cluster


def on_a(*numbers: int) -> dict[str, MetaVictims]:
    return {"a": MetaVictims([MetaPod(str(number)) for number in numbers])}


def test_victims_can_be_taken_once() -> None:
    victims = NamedVictims(cluster_with_expected(2).placements)
    victims.note("urgent", on_a(0, 1))
    assert [placement.uid for placement in victims.take("urgent", "a")] == ["0", "1"]
    assert (victims.take("urgent", "a"), len(victims)) == ([], 0)


def test_the_oldest_are_forgotten_first() -> None:
    victims = NamedVictims(cluster_with_expected(1).placements)
    for number in range(MOST_VICTIMS + 10):
        victims.note(f"urgent-{number}", on_a(0))
    assert len(victims) == MOST_VICTIMS
    assert [len(victims.take(f"urgent-{number}", "a")) for number in (9, 10, MOST_VICTIMS + 9)] == [0, 1, 1]


def test_neither_too_many_victims_nor_a_uid_that_is_made_up_fill_the_memory() -> None:
    victims = NamedVictims(cluster_with_expected(MOST_VICTIMS + 1).placements)
    victims.note("first", on_a(0))
    victims.note("greedy", on_a(*range(MOST_VICTIMS + 1)))
    victims.note("long" * 100, on_a(0))
    assert (len(victims), len(victims.take("first", "a"))) == (1, 1)


def test_a_pod_whose_expectation_has_ended_is_not_kept() -> None:
    cluster = cluster_with_expected(1)
    victims = NamedVictims(cluster.placements)
    victims.note("urgent", on_a(0))
    cluster.drop_placement("0")
    gc.collect()
    assert victims.take("urgent", "a") == []

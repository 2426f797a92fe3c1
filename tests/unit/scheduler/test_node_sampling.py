"""How many nodes are looked at, and what is known of the others. tests/lockstep/sampling compares whole sequences."""

import pytest

from extender_service.config.loading import parse_config
from extender_service.config.types import KubeSchedulerConfiguration
from extender_service.framework.profile import Profile
from extender_service.plugins.in_tree import ARGS_TYPES
from extender_service.scheduler.node_order import NodeOrder
from extender_service.scheduler.node_sampling import NodeSampling, percentages
from tests.support.clusters.scheduler_world import NAME, SchedulerWorld
from tests.support.objects import make_node, make_pod

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def config(text: str) -> KubeSchedulerConfiguration:
    return parse_config(HEAD + text, ARGS_TYPES)


def sampling(world: SchedulerWorld, percentage: int | None, **extenders: bool) -> NodeSampling:
    return NodeSampling(NodeOrder(world.cluster.nodes), {NAME: percentage}, **extenders)


def test_the_profiles_percentage_counts_before_the_one_of_all() -> None:
    profiles = "profiles: [{schedulerName: a, percentageOfNodesToScore: 0}, {schedulerName: b}]\n"
    assert percentages(config("percentageOfNodesToScore: 30\n" + profiles)) == {"a": 0, "b": 30}


def test_without_any_percentage_nothing_is_sampled() -> None:
    assert percentages(config("")) is None
    assert percentages(config("profiles: [{schedulerName: a}]")) is None


def test_zero_in_the_configuration_asks_for_as_many_as_the_size_of_the_cluster_suggests() -> None:
    assert percentages(config("percentageOfNodesToScore: 0")) == {NAME: 0}


@pytest.mark.parametrize(
    ("percentage", "nodes", "found"),
    [(None, 5000, 5000), (0, 99, 99), (0, 5000, 500), (0, 1000, 420), (0, 10000, 500), (1, 5000, 100), (70, 101, 100)],
)
def test_how_many_nodes_are_to_be_found(percentage: int | None, nodes: int, found: int) -> None:
    world = SchedulerWorld()
    [profile] = world.engine.profiles
    assert sampling(world, percentage).nodes_to_find(profile, nodes) == found


def test_where_nothing_scores_one_node_is_enough() -> None:
    world, profile = SchedulerWorld(), Profile(NAME, {})
    assert sampling(world, 50).nodes_to_find(profile, 5000) == 1
    assert sampling(world, 50, extenders_score=True).nodes_to_find(profile, 5000) == 2500
    assert sampling(world, 50, extenders_filter=True).nodes_to_find(profile, 5000) == 2500


def test_the_search_goes_on_where_it_ended_and_rejected_nodes_behind_have_no_verdict() -> None:
    nodes = [make_node(f"n{number:03}", unschedulable=number % 2 == 1) for number in range(300)]
    world = SchedulerWorld(*nodes, percentage=1)
    decision = world.attempts.decide(make_pod("p"))
    names = decision.question.nodes.view.names_at(decision.feasible)
    assert names == [f"n{number:03}" for number in range(0, 200, 2)]
    [(_, rejected)] = decision.verdicts.groups()
    assert rejected.tolist() == list(range(1, 200, 2))
    again = world.attempts.decide(make_pod("q"))
    names = again.question.nodes.view.names_at(again.feasible)
    assert names == [f"n{number:03}" for number in (*range(0, 100, 2), *range(200, 300, 2))]


def test_a_nominated_node_that_fits_is_taken_without_a_search() -> None:
    world = SchedulerWorld(*[make_node(f"n{number:03}") for number in range(300)], percentage=1)
    pod = make_pod("p", nominated="n250")
    decision = world.attempts.decide(pod)
    assert decision.question.nodes.view.names_at(decision.feasible) == ["n250"]
    assert world.sampling is not None
    assert world.sampling.next_start == 0

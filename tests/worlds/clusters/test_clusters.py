"""Clusters that are drawn by seed: what they have, and that nothing in them is wrong."""

import pytest

from tests.worlds.clusters.draft import ACTORS, FEATURES, draw_counts, draw_draft
from tests.worlds.scenarios import Scenario, ScheduledCluster
from tests.worlds.simulation.trace import traced_logs
from tests.worlds.simulation.world import World

SEEDS = range(200)


def creations(seed: int, without: frozenset[str] = frozenset()) -> list[str]:
    """What users created in half a minute, each with its answer, in a cluster without the product."""
    cluster = ScheduledCluster(
        Scenario(seed, minutes=1.0, replicas=0, nodes=5, pods=40, has_others=True, without=without)
    )
    cluster.run()
    lines = [line.partition("api-server: ")[2] for line in cluster.world.trace.lines if " of users " in line]
    return [line for line in lines if " POST " in line]


def test_each_actor_and_feature_is_in_some_seeds_and_not_in_others() -> None:
    drafts = [draw_draft(World(seed).random("draft")) for seed in SEEDS]
    for name in ACTORS:
        assert 0 < sum(name in draft.actors for draft in drafts) < len(SEEDS)
    for name in FEATURES:
        assert 0 < sum(name in draft.features for draft in drafts) < len(SEEDS)


def test_clusters_have_5_to_50_nodes_and_up_to_200_pods() -> None:
    counts = [draw_counts(World(seed).random("counts")) for seed in SEEDS]
    assert {min(nodes for nodes, _ in counts), max(nodes for nodes, _ in counts)} == {5, 50}
    assert max(pods for _, pods in counts) <= 200


@pytest.mark.parametrize("seed", range(2))
def test_all_holds_with_others(seed: int) -> None:
    cluster = ScheduledCluster(Scenario(seed, minutes=5.0, replicas=2, nodes=5, pods=30, has_others=True))
    with traced_logs(cluster.world.trace, cluster.world.who):
        cluster.run()
    assert any(pod["spec"].get("nodeName") for pod in cluster.pods())
    assert cluster.problems() == []


@pytest.mark.parametrize("seed", range(4))
def test_what_users_create_is_valid(seed: int) -> None:
    found = creations(seed)
    assert found
    assert [line for line in found if not line.startswith(("201", "409"))] == []


def test_without_a_pod_all_others_are_as_they_were() -> None:
    whole, lesser = set(creations(1)), set(creations(1, frozenset({"pod-0"})))
    assert lesser < whole
    assert all('"name":"pod-0"' in line or '"name":"claim-of-pod-0"' in line for line in whole - lesser)


def claims_of_pods(*wanted: str) -> list[str]:
    """The claims that pods name, in a cluster without the product."""
    cluster = ScheduledCluster(
        Scenario(1, minutes=1.0, replicas=0, nodes=5, pods=40, has_others=True, wanted=frozenset(wanted))
    )
    cluster.run()
    volumes = [volume for pod in cluster.pods() for volume in pod["spec"].get("volumes", ())]
    return [volume["persistentVolumeClaim"]["claimName"] for volume in volumes]


def test_pods_share_claims_only_where_that_is_wanted() -> None:
    alone, shared = claims_of_pods("volumes"), claims_of_pods("volumes", "shared-claims")
    assert len(shared) == len(alone) == len(set(alone)) > 0
    assert len(set(shared)) < len(shared)

"""Where Filter looks only at free resources, preemption finds the same by comparing these as by running Filter."""

from collections.abc import Mapping
from random import Random

import pytest
from msgspec import structs

from extender_service.cluster.state.cluster import Cluster
from extender_service.framework.interface import FilterAgain, Needs
from extender_service.framework.preemption.dry_run import DryRun, dry_run
from extender_service.framework.preemption.filtering_again import FilteringAgain
from extender_service.framework.profile import Profile
from extender_service.kube.types.core import ResourceList
from extender_service.plugins.node_resources.fit import NodeResourcesFit
from tests.support.clusters.preemption_worlds import judging, preemptor
from tests.support.objects import make_node, make_pod

HUGE = str(2**62)
AMOUNTS = ("1", "2", "3", "500m", "0")


def random_cluster(random: Random) -> Cluster:
    """Return nodes of which no two are alike, with running and nominated pods; a few request nearly all of an int64."""
    cluster = Cluster()
    for node in range(6):
        offered: ResourceList = {
            "cpu": str(random.randint(2, 8)),
            "memory": "8Gi",
            "pods": str(random.randint(2, 8)),
            "x.io/y": HUGE,
        }
        cluster.apply_node(make_node(f"node-{node}", offered))
        for number in range(random.randrange(9)):
            requests: ResourceList = {"cpu": random.choice(AMOUNTS), "x.io/y": random.choice(("1", "0", HUGE))}
            pod = make_pod(f"pod-{node}-{number}", f"node-{node}", requests=requests)
            started = f"2026-01-01T00:00:{random.randrange(60):02}Z"
            cluster.apply_pod(
                structs.replace(
                    pod,
                    spec=structs.replace(pod.spec, priority=random.randrange(12)),
                    status=structs.replace(pod.status, start_time=started),
                )
            )
    for number in range(random.choice((0, 5))):
        nominated = f"node-{random.randrange(7)}"
        pod = make_pod(f"nominated-{number}", requests={"cpu": random.choice(AMOUNTS)}, nominated=nominated)
        spec = structs.replace(pod.spec, priority=random.choice((9, 11)), scheduler_name="default-scheduler")
        cluster.apply_pod(structs.replace(pod, spec=spec))
    return cluster


def tried(cluster: Cluster, again: FilterAgain) -> DryRun:
    return dry_run(cluster, preemptor(cpu=2), cluster.view(None), again)


def evaluations(again: FilterAgain) -> Mapping[str, int]:
    assert isinstance(again, FilteringAgain)
    return again._evaluations


@pytest.mark.parametrize("seed", range(60))
def test_the_same_victims_and_evaluations_as_by_running_filter(seed: int) -> None:
    cluster = random_cluster(Random(seed))
    by_needs, by_filter = judging(cluster, preemptor(cpu=2)), judging(cluster, preemptor(cpu=2))
    found = tried(cluster, by_needs)
    expected = tried(cluster, lambda nodes: by_filter(nodes))
    assert [*found.candidates] == [*expected.candidates]
    assert found.failed == expected.failed
    assert evaluations(by_needs) == evaluations(by_filter)


def test_plugins_run_once_where_only_free_resources_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = random_cluster(Random(1))
    runs = []
    run = NodeResourcesFit.filter

    def counted(plugin: NodeResourcesFit, *arguments: object) -> object:
        runs.append(plugin)
        return run(plugin, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(NodeResourcesFit, "filter", counted)
    assert len(tried(cluster, judging(cluster, preemptor(cpu=2))).candidates)
    assert len(runs) <= 2  # with nominated pods, and without


class FitOfAUser(NodeResourcesFit):
    """Looks at more than free resources."""

    filter = NodeResourcesFit.filter


class NeedsOfAUser(FitOfAUser):
    def needs(self, *_: object) -> Needs | None:
        return None


@pytest.mark.parametrize(("kind", "expected"), [(NodeResourcesFit, True), (FitOfAUser, False), (NeedsOfAUser, True)])
def test_a_filter_of_its_own_is_asked_again(kind: type[NodeResourcesFit], *, expected: bool) -> None:
    profile = Profile("default-scheduler", {"filter": [(object.__new__(kind), 0)]})
    assert bool(profile.filter_by_needs) == expected

"""`schedule` in a world: the program as it is, in simulated time."""

import signal

import pytest

from tests.worlds.faults.plan import Fault
from tests.worlds.scenarios import Scenario, ScheduledCluster
from tests.worlds.simulation.trace import traced_logs
from tests.worlds.simulation.watched_calls import watched_calls


def run(scenario: Scenario) -> ScheduledCluster:
    cluster = ScheduledCluster(scenario)
    with traced_logs(cluster.world.trace, cluster.world.who):
        cluster.run()
    return cluster


def test_binds_all_pods_that_fit() -> None:
    cluster = run(Scenario(seed=1))
    assert len(cluster.pods()) == 60
    assert cluster.problems() == []


def test_takes_neither_time_nor_chance_from_the_system() -> None:
    with watched_calls() as found:
        run(Scenario(seed=1, minutes=1.0, replicas=2, pods=20, has_faults=True))
    assert found == {}


def binders(cluster: ScheduledCluster) -> list[str]:
    """Which replica each binding came from."""
    return [line.split(" of ")[1].split()[0] for line in cluster.world.trace.lines if "/binding of " in line]


def test_the_standby_leads_soon_after_a_leader_that_was_told_to_end() -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=1.0, replicas=2))
    told = []

    def tell() -> None:
        leader = next(replica for replica in cluster.replicas if replica.name == binders(cluster)[-1])
        leader.signal(signal.SIGTERM)
        told.append(leader)

    cluster.world.timeline.call_at(20.0, tell)
    with traced_logs(cluster.world.trace, cluster.world.who):
        cluster.run()
    assert f"{told[0].name}: exits" in "\n".join(cluster.world.trace.lines)
    assert len(set(binders(cluster))) == 2
    assert binders(cluster)[-1] != told[0].name
    assert cluster.problems() == []


@pytest.mark.parametrize("seed", range(3))
def test_replicas_that_fail_bind_each_pod_once(seed: int) -> None:
    assert run(Scenario(seed, replicas=2, has_faults=True)).problems() == []


def test_a_replica_sees_that_etcd_was_restored_with_its_old_revisions() -> None:
    plan = (Fault(20.0, "restore-revision", "etcd", seconds=20.0),)
    cluster = run(Scenario(1, minutes=2.0, has_faults=True, faults=plan, api_servers=1))
    assert cluster.problems() == []
    assert any("etcd has been restored" in line for line in cluster.world.trace.lines)

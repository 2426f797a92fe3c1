"""A pod that waits for an event, though it fits and all know that, is reported."""

import pytest

from tests.worlds.api_server.kinds import PODS
from tests.worlds.invariants.insides import scheduler_insides
from tests.worlds.scenarios import Mode, Scenario, ScheduledCluster


def reported(cluster: ScheduledCluster, *, is_deaf: bool) -> list[str]:
    """What a full cluster reports in which pods go at 20 s. A scheduler that is deaf moves no pod for it."""

    def make_room() -> None:
        for replica in cluster.replicas if is_deaf else ():
            insides = scheduler_insides(replica)
            assert insides is not None
            insides.queue.move_all_to_active_or_backoff = lambda *arguments: None  # type: ignore[method-assign]
            insides.queue.assigned_pod_updated = lambda *arguments: None  # type: ignore[method-assign]
        bound = [item for item in cluster.model.etcd.all(PODS) if item.value["spec"].get("nodeName")]
        for item in bound[:5]:
            cluster.model.etcd.delete(PODS, item.key)

    cluster.world.timeline.call_at(40.0, make_room)
    cluster.run()
    return [line for line in cluster.holds.observed.violations.lines() if " fitting pods tried: " in line]


@pytest.mark.parametrize("mode", [None, "beside", "replace"])
def test_pods_that_are_tried_in_time_are_fine(mode: Mode | None) -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=1.0, nodes=1, pods=40, mode=mode))
    assert reported(cluster, is_deaf=False) == []


@pytest.mark.parametrize("mode", [None, "beside", "replace"])
def test_a_pod_that_misses_the_room_made_for_it_is_reported(mode: Mode | None) -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=1.0, nodes=1, pods=40, replicas=2, mode=mode))
    found = reported(cluster, is_deaf=True)
    assert found
    assert 43.0 < float(found[0].split()[0]) < 46.0
    assert found[0].endswith("waits for an event, though it has fitted for some seconds")

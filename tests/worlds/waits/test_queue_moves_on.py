"""A pod whose turn has come, or whose backoff is over, and that stays where it is, is reported."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from extender_service.queue.waiting_queues import UNSCHEDULABLE
from tests.worlds.invariants.insides import SchedulerInsides, scheduler_insides
from tests.worlds.invariants.observed import Violations
from tests.worlds.scenarios import Scenario, ScheduledCluster
from tests.worlds.waits.queue_moves_on import QueueMovesOn


def reported(cluster: ScheduledCluster, act: Callable[[SchedulerInsides], None], *, calm_from: float = 0.0) -> str:
    """What is said of a full cluster in which something is done to the scheduler at 20 s."""

    def act_on_scheduler() -> None:
        insides = scheduler_insides(cluster.replicas[0])
        assert insides is not None
        act(insides)

    observed = replace(cluster.holds.observed, calm_from=calm_from, violations=Violations())
    QueueMovesOn(observed)
    cluster.world.timeline.call_at(20.0, act_on_scheduler)
    cluster.run()
    return "\n".join(observed.violations.lines())


@pytest.fixture
def full() -> ScheduledCluster:
    return ScheduledCluster(Scenario(seed=1, minutes=1.5, nodes=1, pods=50))


def let_all_back_off(insides: SchedulerInsides) -> None:
    for entry in [*insides.queue.entries()]:
        if entry.queue == UNSCHEDULABLE:
            insides.queue._queues.move_to_backoff(entry.info, "something")


def let_all_back_off_for_good(insides: SchedulerInsides) -> None:
    insides.queue._backing_off.pop_completed = lambda: iter(())  # type: ignore[method-assign]
    let_all_back_off(insides)


def end(insides: SchedulerInsides) -> None:
    insides.queue.close()
    let_all_back_off_for_good(insides)


def lose_what_wakes(insides: SchedulerInsides) -> None:
    insides.queue._wake = lambda: None  # type: ignore[method-assign]


def test_a_queue_that_moves_on_is_fine(full: ScheduledCluster) -> None:
    assert reported(full, let_all_back_off) == ""


def test_a_pod_that_backs_off_for_too_long_is_reported(full: ScheduledCluster) -> None:
    assert "backs off, though its backoff has been over for some seconds" in reported(full, let_all_back_off_for_good)


def test_a_scheduler_that_ends_tries_no_more_pods(full: ScheduledCluster) -> None:
    assert reported(full, end) == ""


@pytest.mark.parametrize("calm_from", [0.0, 80.0])
def test_an_active_pod_that_is_not_tried_is_reported_without_faults(full: ScheduledCluster, calm_from: float) -> None:
    found = reported(full, lose_what_wakes, calm_from=calm_from)
    assert ("is active, though no attempt has begun for 30 s" in found) is (calm_from == 0.0)

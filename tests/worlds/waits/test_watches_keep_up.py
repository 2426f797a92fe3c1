"""A program whose watch does not show what is stored is reported."""

from dataclasses import replace

from tests.worlds.invariants.insides import scheduler_insides
from tests.worlds.invariants.observed import Violations
from tests.worlds.scenarios import Scenario, ScheduledCluster
from tests.worlds.waits.watches_keep_up import WatchesKeepUp


def reported(*, is_deaf: bool, calm_from: float = 0.0) -> list[str]:
    """What is said of a world in which the second replica takes in no more events of pods from 40 s on."""
    cluster = ScheduledCluster(Scenario(seed=1, minutes=2.0, replicas=2, pods=40))

    def deafen() -> None:
        insides = scheduler_insides(cluster.replicas[1])
        assert insides is not None
        insides.api_server._reflectors["pods"]._take = lambda event: None  # type: ignore[method-assign]

    if is_deaf:
        cluster.world.timeline.call_at(40.0, deafen)
    observed = replace(cluster.holds.observed, calm_from=calm_from, violations=Violations())
    WatchesKeepUp(observed)
    cluster.run()
    return observed.violations.lines()


def test_watches_that_keep_up_are_fine() -> None:
    assert reported(is_deaf=False) == []


def test_a_watch_that_falls_behind_is_reported_once() -> None:
    [line] = reported(is_deaf=True)
    assert 55.0 <= float(line.split()[0]) < 70.0
    assert line.endswith("watches keep up: replica-1 does not know of pods what was stored 15 s ago")


def test_it_may_be_behind_until_faults_have_been_over_for_a_while() -> None:
    assert reported(is_deaf=True, calm_from=30.0) == []

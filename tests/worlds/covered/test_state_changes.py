"""State changes of pods are counted from outside, for as long as they are asked for."""

from extender_service.cluster.state.placements import Placements
from tests.worlds.covered.state_changes import PLACEMENT_CHANGES, QUEUE_CHANGES, counted
from tests.worlds.finding.world_run import run_world
from tests.worlds.scenarios import Scenario


def test_counts_the_changes_of_pods_that_fit() -> None:
    place = Placements.place
    with counted() as changes:
        end, _ = run_world(Scenario(seed=1, minutes=1.0, pods=7))
    assert end.bound == 7
    assert changes["new: active"] == 7
    assert changes["place: reserved"] == changes["reserved: assumed"] == changes["assumed: fulfilled"] == 7
    assert changes["active: in flight"] == changes["in flight: done"] == 7
    assert changes.keys() <= {*PLACEMENT_CHANGES, *QUEUE_CHANGES}
    assert Placements.place is place


def test_counts_the_changes_of_pods_that_are_tried_again() -> None:
    with counted() as changes:
        run_world(Scenario(seed=1, minutes=1.0, nodes=0, pods=7))
    tried_again = changes["backoff: active"]
    assert tried_again > 7
    assert changes["new: active"] == 7
    assert 14 < changes["active: in flight"] == changes["in flight: backoff"] <= 7 + tried_again
    assert changes.keys() <= {*PLACEMENT_CHANGES, *QUEUE_CHANGES}

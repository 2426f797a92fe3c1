"""What users see of scenarios is the same with this program as with kube-scheduler: a sample of all (`make beside`)."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from extender_service.config.release import OLDEST_MINOR
from tests.e2e.scheduler.side_by_side.running import DEFAULT_PAIRS, Pair, pairs_of_clusters, run
from tests.e2e.support.releases import both_releases

# Up to six control planes of its own, and pairs of schedulers that must see the same changes in the same order.
pytestmark = pytest.mark.alone

# Some of each kind, and those that once showed a difference; with the newest release, those that it changed.
SAMPLE = (
    "a_node_comes_late",
    "a_note_is_too_long_for_an_event",
    "a_pod_learns_to_tolerate",
    "affinity_that_contradicts_itself",
    "near_a_pod_that_comes_late",
    "spread_over_zones",
    "pods_of_three_profiles",
    "a_pod_is_held_by_a_finalizer_while_it_goes",
    "a_more_important_pod_displaces_as_well",
    "others_are_tried_while_a_victim_goes",
    "another_node_is_free_before_the_victim_is_gone",
    "a_volume_is_made",
    "a_pod_is_deleted_while_its_volume_is_made",
)


NEWEST_SAMPLE = (
    "a_more_important_pod_displaces_as_well",
    "others_are_tried_while_a_victim_goes",
    "another_node_is_free_before_the_victim_is_gone",
    "a_pod_is_deleted_while_its_volume_is_made",
)


@pytest.fixture
def pairs(controlplane: Path, tmp_path: Path, minor: int) -> Iterator[list[Pair]]:
    count = DEFAULT_PAIRS if minor == OLDEST_MINOR else 2  # for fewer scenarios
    with pairs_of_clusters(controlplane, tmp_path, count, minor=minor) as pairs:
        yield pairs


@pytest.mark.timeout(900)  # what differs is repeated
@both_releases
def test_users_see_the_same_as_with_kube_scheduler(
    pairs: list[Pair], ask_oracle: Callable[[bytes], bytes], minor: int
) -> None:
    comparisons = dict(run(pairs, ask_oracle, SAMPLE if minor == OLDEST_MINOR else NEWEST_SAMPLE))
    assert {name: found.differences for name, found in comparisons.items() if found.differences} == {}
    placements = sum(found.placements for found in comparisons.values())
    assert sum(found.without_choice for found in comparisons.values()) >= 0.75 * placements

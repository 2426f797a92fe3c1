"""The scheduling queue against the PriorityQueue of v1.31.1 and of v1.37.2, in every state of random scripts."""

import secrets
from collections.abc import Callable
from pathlib import Path

import pytest

from extender_service.queue.pod_backoff import PodBackoff
from tests.lockstep.queue.comparison import REFERENCES, compare
from tests.lockstep.queue.generator import generate
from tests.lockstep.queue.replay import DifferenceError

FIXED = range(150)
FRESH = 100
# What the fixed scripts do at least once: each way into a queue, and what only our queue does otherwise.
REACHED = {
    31: (
        "in two queues",
        "to active/AssignedPodAdd",
        "to active/BackoffComplete",
        "to active/ForceActivate",
        "to active/NodeAdd",
        "to active/PodAdd",
        "to active/PodUpdate",
        "to active/ScheduleAttemptFailure",
        "to active/UnschedulablePodUpdate",
        "to active/UnschedulableTimeout",
        "to backoff/AssignedPodUpdate",
        "to backoff/AssignedPodAdd",
        "to backoff/ScheduleAttemptFailure",
        "to backoff/UnschedulablePodUpdate",
        "to backoff/WildCardEvent",
        "to unschedulable/ScheduleAttemptFailure",
        "to unschedulable/UnschedulablePodUpdate",
    ),
    37: (
        "to active/AssignedPodAdd",
        "to active/AssignedPodDelete",
        "to active/BackoffComplete",
        "to active/ForceActivate",
        "to active/NodeAdd",
        "to active/PopFromBackoffQ",
        "to active/ScheduleAttemptFailure",
        "to active/TargetPodUpdatePodScaleDown",
        "to active/TargetPodUpdatePodScaleUp",
        "to active/UnschedulableTimeout",
        "to active/UnscheduledPodAdd",
        "to backoff/AssignedPodUpdatePodLabel",
        "to backoff/ScheduleAttemptFailure",
        "to backoff/TargetPodUpdate",
        "to backoff/TargetPodUpdatePodLabel",
        "to backoff/WildCardEvent",
        "to unschedulable/ScheduleAttemptFailure",
        "to unschedulable/UnschedulableTimeout",
        "to unschedulable/UnscheduledPodAdd",
    ),
}

both_releases = pytest.mark.parametrize("minor", REFERENCES)


@pytest.fixture(autouse=True, scope="module")
def references(build_go: Callable[[Path], Path]) -> None:
    for program in REFERENCES.values():
        build_go(program)


@both_releases
def test_fixed_scripts_agree_in_every_state(minor: int) -> None:
    seen = compare((generate(seed, minor) for seed in FIXED), minor)
    assert [what for what in REACHED[minor] if not seen[what]] == []


@both_releases
def test_fresh_scripts_agree_in_every_state(minor: int) -> None:
    first = secrets.randbelow(2**40)
    # A DifferenceError names the seed of its script.
    compare((generate(seed, minor) for seed in range(first, first + FRESH)), minor)


@both_releases
def test_a_queue_that_waits_longer_is_noticed(monkeypatch: pytest.MonkeyPatch, minor: int) -> None:
    monkeypatch.setattr(PodBackoff, "seconds", lambda self, attempts: 2 * self.initial_seconds)
    with pytest.raises(DifferenceError, match="seed"):
        compare((generate(seed, minor) for seed in FIXED[:20]), minor)


def test_only_tagged_steps_may_leave_a_pod_in_two_queues() -> None:
    """Without the tag, kube-scheduler's queue keeps such a pod in both, and the states differ."""
    untagged = [generate(seed) for seed in FIXED]
    for script in untagged:
        for step in script["steps"]:
            step.pop("mayBeInTwo", None)
    with pytest.raises(DifferenceError, match="'op': 'update'"):
        compare(untagged)

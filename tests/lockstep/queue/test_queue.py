"""The scheduling queue against v1.31.1's own PriorityQueue, in every state of random scripts."""

import secrets
from collections.abc import Callable
from pathlib import Path

import pytest

from extender_service.queue.pod_backoff import PodBackoff
from tests.lockstep.queue.comparison import REFERENCE, compare
from tests.lockstep.queue.generator import generate
from tests.lockstep.queue.replay import DifferenceError

FIXED = range(150)
FRESH = 100
# What the fixed scripts do at least once: each way into a queue, and what only our queue does otherwise.
REACHED = (
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
)


@pytest.fixture(autouse=True, scope="module")
def reference(build_go: Callable[[Path], Path]) -> None:
    build_go(REFERENCE)


def test_fixed_scripts_agree_in_every_state() -> None:
    seen = compare(generate(seed) for seed in FIXED)
    assert [what for what in REACHED if not seen[what]] == []


def test_fresh_scripts_agree_in_every_state() -> None:
    first = secrets.randbelow(2**40)
    compare(generate(seed) for seed in range(first, first + FRESH))  # a DifferenceError names the seed of its script


def test_a_queue_that_waits_longer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PodBackoff, "seconds", lambda self, attempts: 2 * self.initial_seconds)
    with pytest.raises(DifferenceError, match="seed"):
        compare(generate(seed) for seed in FIXED[:20])


def test_only_tagged_steps_may_leave_a_pod_in_two_queues() -> None:
    """Without the tag, kube-scheduler's queue keeps such a pod in both, and the states differ."""
    untagged = [generate(seed) for seed in FIXED]
    for script in untagged:
        for step in script["steps"]:
            step.pop("mayBeInTwo", None)
    with pytest.raises(DifferenceError, match="'op': 'update'"):
        compare(untagged)

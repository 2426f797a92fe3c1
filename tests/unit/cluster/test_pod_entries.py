"""What the table holds of a pod."""

import pytest
from msgspec import structs

from extender_service.cluster.pod_entries import NOT_STARTED, PodEntry, pod_entry
from extender_service.kube.objects import PodCondition, PodStatus
from tests.unit.cluster.objects import make_pod


def entry(status: PodStatus, *, deleted: bool = False) -> PodEntry:
    pod = make_pod("web", "a")
    metadata = structs.replace(pod.metadata, deletion_timestamp="2024-01-01T00:00:00Z" if deleted else "")
    return pod_entry(structs.replace(pod, metadata=metadata, status=status), "uid", "a")


def disrupted(reason: str = "PreemptionByScheduler", status: str = "True", kind: str = "DisruptionTarget") -> PodStatus:
    return PodStatus(
        conditions=(PodCondition("Ready", "True", "PreemptionByScheduler"), PodCondition(kind, status, reason))
    )


def test_a_pod_that_is_being_deleted_to_make_room_is_told_from_others() -> None:
    assert entry(disrupted(), deleted=True).preempted
    assert not entry(disrupted(), deleted=False).preempted
    assert not entry(PodStatus(), deleted=True).preempted
    assert entry(PodStatus(), deleted=True).terminating
    assert not entry(PodStatus()).terminating


@pytest.mark.parametrize(
    "status", [disrupted("EvictionByEvictionAPI"), disrupted(status="False"), disrupted(kind="Initialized")]
)
def test_a_pod_that_is_deleted_for_another_reason_is_not_preempted(status: PodStatus) -> None:
    assert not entry(status, deleted=True).preempted


@pytest.mark.parametrize(
    ("start_time", "started"),
    [
        ("", NOT_STARTED),
        ("some day", NOT_STARTED),
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01T02:00:00.000005+02:00", 5),
        ("1970-01-01T00:00:02", 2_000_000),
    ],
)
def test_a_pods_start_is_counted_in_microseconds(start_time: str, started: int) -> None:
    assert entry(PodStatus(start_time=start_time)).started == started

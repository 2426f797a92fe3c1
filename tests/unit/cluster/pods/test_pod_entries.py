"""What the table holds of a pod."""

import pytest
from msgspec import json, structs

from extender_service.cluster.pods.pod_entries import NOT_STARTED, PodEntry, pod_entry
from extender_service.kube.resources.api_resources import PODS, WATCHED_PODS
from extender_service.kube.types.core import PodCondition, PodStatus
from tests.support.objects import make_pod


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


def test_a_watched_pod_shows_all_that_is_kept_of_a_pod() -> None:
    pod = json.encode(
        {
            "metadata": {
                "name": "web",
                "namespace": "shop",
                "uid": "1",
                "labels": {"app": "web"},
                "deletionTimestamp": "2024-01-01T00:00:00Z",
            },
            "spec": {
                "priority": 7,
                "schedulingGroup": {"podGroupName": "workers"},
                "containers": [
                    {"image": "web:1", "ports": [{"hostPort": 80}], "resources": {"requests": {"cpu": "1"}}},
                    {"image": "log:1", "resources": {"requests": {"memory": "1Gi"}}},
                ],
                "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}}],
                "overhead": {"cpu": "100m"},
                "affinity": {
                    "nodeAffinity": {},
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
                        ]
                    },
                },
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            },
            "status": {
                "nominatedNodeName": "b",
                "startTime": "1970-01-01T00:00:02Z",
                "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}],
            },
        }
    )
    entries = [pod_entry(resource.decoder.decode(pod), "1", "a") for resource in (PODS, WATCHED_PODS)]
    assert entries[0] == entries[1]
    assert (entries[1].requests.amounts, len(entries[1].ports)) == ((("cpu", 3100), ("memory", 1 << 30)), 1)
    assert (entries[1].preempted, entries[1].in_group) == (True, True)

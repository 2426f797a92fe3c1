from typing import Any

import msgspec
import pytest

from extender_service.kube.types.pending_pods import PendingPod
from extender_service.queue.pod_update import is_pod_updated

POD: dict[str, dict[str, Any]] = {
    "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1", "labels": {"app": "x"}},
    "spec": {"containers": [{"image": "x:1"}], "schedulingGates": [{"name": "g"}]},
    "status": {"phase": "Pending"},
}


def decoded(**parts: dict[str, Any]) -> PendingPod:
    return msgspec.convert({part: {**fields, **parts.get(part, {})} for part, fields in POD.items()}, PendingPod)


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"labels": {"app": "y"}}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"metadata": {"deletionGracePeriodSeconds": 3}},
        {"spec": {"schedulingGates": []}},
        {"spec": {"containers": [{"image": "x:2"}]}},
        {"spec": {"activeDeadlineSeconds": 5}},
        {"spec": {"terminationGracePeriodSeconds": 1}},
        {"spec": {"ephemeralContainers": [{"name": "debug"}]}},
        {"spec": {"tolerations": [{"operator": "Exists"}]}},
        {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "gpu-1"}]}},
        {"status": {"extendedResourceClaimStatus": {"resourceClaimName": "gpu-1"}}},
    ],
)
def test_a_change_of_the_pod_itself_counts(change: dict[str, dict[str, Any]]) -> None:
    assert is_pod_updated(decoded(), decoded(**change))


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"metadata": {"resourceVersion": "2"}},
        {"metadata": {"generation": 2, "managedFields": [{"manager": "kubectl"}], "finalizers": ["f"]}},
        {"status": {"phase": "Failed", "nominatedNodeName": "n", "conditions": [{"type": "PodScheduled"}]}},
    ],
)
def test_a_change_of_version_status_or_bookkeeping_does_not(change: dict[str, dict[str, Any]]) -> None:
    assert not is_pod_updated(decoded(), decoded(**change))

import logging
from typing import Any

import pytest
from msgspec import structs

from extender_service.cluster.state.cluster import Cluster
from extender_service.framework.profiles import MOST_OTHER_NAMES
from extender_service.framework.status import unresolvable
from extender_service.kube.types.core import Pod, PodResourceClaim, PodResources
from extender_service.scheduling.asked_nodes import AllNodes
from extender_service.scheduling.question import Question
from extender_service.scheduling.unsupported import RESOURCE_CLAIMS, RESOURCES, UnsupportedFields
from tests.support.objects import make_pod

CLAIMS: dict[str, Any] = {"resource_claims": (PodResourceClaim("gpu"),)}


def pod_with(scheduler_name: str = "default-scheduler", **spec: Any) -> Pod:
    pod = make_pod("web", requests={"cpu": "1"})
    return structs.replace(pod, spec=structs.replace(pod.spec, scheduler_name=scheduler_name, **spec))


def asked(pod: Pod, *, refuses: bool = True) -> Question:
    return Question(pod, AllNodes(Cluster().view(None)), refuses_unsupported=refuses)


@pytest.mark.parametrize(
    ("pod", "fields"),
    [
        (pod_with(), []),
        (pod_with(resources=PodResources()), []),
        (pod_with(resources=PodResources(requests={"cpu": "1"})), [RESOURCES]),
        (pod_with(resources=PodResources(limits={"memory": "1Gi"})), [RESOURCES]),
        (pod_with(**CLAIMS), [RESOURCE_CLAIMS]),
        (pod_with(resources=PodResources(requests={"cpu": "1"}), **CLAIMS), [RESOURCE_CLAIMS, RESOURCES]),
    ],
)
def test_each_field_that_asks_for_something_is_a_reason(pod: Pod, fields: list[str]) -> None:
    status = UnsupportedFields().refusal(asked(pod))
    reasons = [f"pod has {field}, which extender-service does not support" for field in fields]
    assert status == (unresolvable(*reasons) if fields else None)
    assert UnsupportedFields().refusal(asked(pod, refuses=False)) is None


@pytest.mark.parametrize("refuses", [True, False])
def test_each_field_is_logged_once_for_a_scheduler_name(refuses: bool, caplog: pytest.LogCaptureFixture) -> None:
    unsupported = UnsupportedFields()
    for name in ("one", "two", "one"):
        unsupported.refusal(asked(pod_with(name, **CLAIMS), refuses=refuses))
    unsupported.refusal(asked(pod_with("one", resources=PodResources(requests={"cpu": "1"})), refuses=refuses))
    logged = [(vars(record)["scheduler"], vars(record)["field"], record.levelno) for record in caplog.records]
    assert logged == [
        ("one", RESOURCE_CLAIMS, logging.WARNING),
        ("two", RESOURCE_CLAIMS, logging.WARNING),
        ("one", RESOURCES, logging.WARNING),
    ]
    assert {vars(record)["first_pod"] for record in caplog.records} == {"default/web"}
    assert all(("refused" in record.getMessage()) == refuses for record in caplog.records)


def test_endless_scheduler_names_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    unsupported = UnsupportedFields()
    for number in range(1000):
        unsupported.refusal(asked(pod_with(f"{number}-" + 10_000 * "x", **CLAIMS), refuses=False))
    assert len(caplog.records) == 2 * MOST_OTHER_NAMES
    assert max(len(vars(record)["scheduler"]) for record in caplog.records) == 253

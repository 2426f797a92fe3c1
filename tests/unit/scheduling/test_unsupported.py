import logging
from typing import Any

import msgspec
import pytest
from msgspec import structs

from extender_service.cluster.state.cluster import Cluster
from extender_service.config.known_gates import minors_with
from extender_service.config.rules import Rules, rules_of
from extender_service.framework.status import unresolvable
from extender_service.kube.types.core import Pod
from extender_service.scheduling.asked_nodes import AllNodes
from extender_service.scheduling.question import Question
from extender_service.scheduling.unsupported import UnsupportedFields
from tests.support.objects import make_pod

RESOURCES = {"resources": {"requests": {"cpu": "1"}}}
CLAIMS = {"resourceClaims": [{"name": "gpu"}]}
GROUP = {"schedulingGroup": {"podGroupName": "workers"}}
WORKLOAD = {"workloadRef": {"name": "training", "podGroup": "workers"}}
RESIZED = {"nodeName": "a"}
DEFERRED = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]}
INFEASIBLE = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}


def pod_with(spec: dict[str, Any], status: dict[str, Any] | None = None) -> Pod:
    parts = {"metadata": {"name": "web", "namespace": "default"}, "spec": spec, "status": status or {}}
    return msgspec.convert(parts, Pod)


def refused(rules: Rules, pod: Pod) -> list[str]:
    question = Question(pod, AllNodes(Cluster().view(None)), refuses_unsupported=True)
    assert UnsupportedFields(rules).refusal(structs.replace(question, refuses_unsupported=False)) is None
    status = UnsupportedFields(rules).refusal(question)
    if status is None:
        return []
    assert status == unresolvable(*status.reasons)
    return [reason.removeprefix("pod has ").partition(",")[0] for reason in status.reasons]


def logged(unsupported: UnsupportedFields, pod: Pod, caplog: pytest.LogCaptureFixture, *, refuses: bool) -> list[Any]:
    caplog.clear()
    unsupported.refusal(Question(pod, AllNodes(Cluster().view(None)), refuses_unsupported=refuses))
    assert all(record.levelno == logging.WARNING for record in caplog.records)
    return [(vars(record)["field"], vars(record)["emulated_version"]) for record in caplog.records]


@pytest.mark.parametrize(
    ("spec", "gate", "releases"),
    [
        (CLAIMS, "", {34, 35, 36, 37}),
        (CLAIMS, "DynamicResourceAllocation", {31, 32, 33, 34, 35, 36, 37}),
        (GROUP, "", set()),
        (GROUP, "GenericWorkload", {35, 36, 37}),
        (WORKLOAD, "GenericWorkload", {35, 36, 37}),
        (RESOURCES, "", set()),
        (RESOURCES, "PodLevelResources", {32}),
    ],
)
def test_a_field_is_refused_where_the_release_judges_it_and_no_plugin_here_does(
    spec: dict[str, Any], gate: str, releases: set[int]
) -> None:
    minors = [minor for minor in range(31, 38) if not gate or minor in minors_with(gate)]
    found = {minor for minor in minors if refused(rules_of(minor, {gate: True} if gate else {}), pod_with(spec))}
    assert found == releases


def test_nothing_is_refused_of_a_pod_without_such_fields() -> None:
    rules = rules_of(37, {"GenericWorkload": True, "InPlacePodVerticalScalingSchedulerPreemption": True})
    assert refused(rules, make_pod("web", requests={"cpu": "1"})) == []
    assert refused(rules, pod_with({"resourceClaims": [], "schedulingGroup": None, "resources": {}})) == []
    assert refused(rules_of(32, {"PodLevelResources": True}), pod_with({"resources": {"requests": {}}})) == []


def test_a_running_pod_that_waits_for_room_to_grow_is_refused_with_the_gate_that_schedules_it() -> None:
    rules = rules_of(37, {"InPlacePodVerticalScalingSchedulerPreemption": True})
    assert refused(rules, pod_with(RESIZED, DEFERRED)) == ["status.conditions.PodResizePending"]
    assert refused(rules, pod_with(RESIZED, INFEASIBLE)) == []
    assert refused(rules_of(37), pod_with(RESIZED, DEFERRED)) == []


def test_the_reasons_name_the_fields_and_the_release() -> None:
    unsupported = UnsupportedFields(rules_of(36, {"GenericWorkload": True}))
    question = Question(pod_with(CLAIMS | GROUP), AllNodes(Cluster().view(None)), refuses_unsupported=True)
    assert unsupported.refusal(question) == unresolvable(
        "pod has spec.resourceClaims, which kube-scheduler 1.36 judges and extender-service does not",
        "pod has spec.schedulingGroup, which kube-scheduler 1.36 judges and extender-service does not",
    )


@pytest.mark.parametrize("refuses", [True, False])
def test_each_field_is_logged_once_and_each_question_counted(refuses: bool, caplog: pytest.LogCaptureFixture) -> None:
    unsupported = UnsupportedFields(rules_of(37, {"GenericWorkload": True}))
    assert logged(unsupported, pod_with({}), caplog, refuses=refuses) == []
    assert logged(unsupported, pod_with(CLAIMS), caplog, refuses=refuses) == [("spec.resourceClaims", "1.37")]
    (record,) = caplog.records
    assert vars(record)["first_pod"] == "default/web"
    assert ("refused" in record.getMessage()) == refuses
    assert logged(unsupported, pod_with(CLAIMS), caplog, refuses=refuses) == []
    assert logged(unsupported, pod_with(CLAIMS | GROUP), caplog, refuses=refuses) == [("spec.schedulingGroup", "1.37")]
    assert unsupported.counts == {"spec.resourceClaims": 3, "spec.schedulingGroup": 1}


def test_what_the_release_ignores_is_not_passed_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    unsupported = UnsupportedFields(rules_of(31))
    assert logged(unsupported, pod_with(CLAIMS), caplog, refuses=True) == [("spec.resourceClaims", "1.31")]
    assert "ignored" in caplog.text
    assert unsupported.counts == {"spec.resourceClaims": 1}

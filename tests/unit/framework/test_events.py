"""What an update of a node or pod means to pods that wait."""

import msgspec
import pytest

from extender_service.config.rules import DEFAULT_RULES, rules_of
from extender_service.framework.cluster_event import POD, ActionType, ClusterEvent
from extender_service.framework.events import (
    NODE_ALLOCATABLE_CHANGE,
    NODE_ANNOTATION_CHANGE,
    NODE_CONDITION_CHANGE,
    NODE_LABEL_CHANGE,
    NODE_SPEC_UNSCHEDULABLE_CHANGE,
    NODE_TAINT_CHANGE,
    POD_LABEL_CHANGE,
    POD_OTHER_UPDATE,
    POD_REQUEST_SCALED_DOWN,
    reported_events,
)
from extender_service.kube.types.core import (
    Container,
    ContainerStatus,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    ReportedResources,
    ResourceRequirements,
    Taint,
    Toleration,
)
from extender_service.kube.types.pending_pods import (
    PendingPod,
    PendingPodStatus,
    PodExtendedResourceClaimStatus,
    PodResourceClaimStatus,
)

OLDEST = reported_events(DEFAULT_RULES)


def labels(events: list[ClusterEvent]) -> list[str]:
    return [event.label for event in events]


def labelled(**labels: str) -> Node:
    return Node(metadata=ObjectMeta(labels=labels))


def annotated(**annotations: str) -> Node:
    return Node(metadata=ObjectMeta(annotations=annotations))


def cordoned(*, unschedulable: bool) -> Node:
    return Node(spec=NodeSpec(unschedulable=unschedulable))


def tainted(*taints: Taint) -> Node:
    return Node(spec=NodeSpec(taints=taints))


def offering(**allocatable: str) -> Node:
    return Node(status=NodeStatus(allocatable={**allocatable}))


def being(**conditions: str) -> Node:
    return Node(status=NodeStatus(conditions=tuple(NodeCondition(*item) for item in conditions.items())))


@pytest.mark.parametrize(
    ("old", "new", "events"),
    [
        (Node(), Node(), []),
        (cordoned(unschedulable=True), cordoned(unschedulable=False), [NODE_SPEC_UNSCHEDULABLE_CHANGE]),
        (cordoned(unschedulable=False), cordoned(unschedulable=True), []),
        (offering(cpu="1"), offering(cpu="2"), [NODE_ALLOCATABLE_CHANGE]),
        (offering(cpu="1"), offering(), [NODE_ALLOCATABLE_CHANGE]),
        (offering(cpu="1"), offering(cpu="1000m"), []),
        (labelled(zone="a"), labelled(zone="b"), [NODE_LABEL_CHANGE]),
        (tainted(Taint("busy")), tainted(), [NODE_TAINT_CHANGE]),
        (tainted(Taint("busy", time_added="2024-01-01T00:00:00Z")), tainted(Taint("busy")), [NODE_TAINT_CHANGE]),
        (being(Ready="False"), being(Ready="True"), [NODE_CONDITION_CHANGE]),
        (being(Ready="True", DiskPressure="False"), being(DiskPressure="False", Ready="True"), []),
        (annotated(a="x"), annotated(), [NODE_ANNOTATION_CHANGE]),
    ],
)
def test_an_update_of_a_node(old: Node, new: Node, events: list[ClusterEvent]) -> None:
    assert OLDEST.node_changes(old, new) == events


def test_a_node_may_change_in_several_ways_at_once() -> None:
    old = Node(ObjectMeta(labels={"a": "x"}), NodeSpec(unschedulable=True), NodeStatus({"cpu": "1"}))
    new = Node(ObjectMeta(annotations={"a": "x"}))
    assert OLDEST.node_changes(old, new) == [
        NODE_SPEC_UNSCHEDULABLE_CHANGE,
        NODE_ALLOCATABLE_CHANGE,
        NODE_LABEL_CHANGE,
        NODE_ANNOTATION_CHANGE,
    ]


def requesting(labels: dict[str, str] | None = None, **requests: str) -> Pod:
    container = Container(resources=ResourceRequirements({**requests}))
    return Pod(ObjectMeta(labels=labels or {}), PodSpec(containers=(container,)))


@pytest.mark.parametrize(
    ("old", "new", "events"),
    [
        (Pod(), Pod(), [POD_OTHER_UPDATE]),
        (requesting(cpu="1"), requesting(cpu="2"), [POD_OTHER_UPDATE]),
        (requesting(cpu="2"), requesting(cpu="1"), [POD_REQUEST_SCALED_DOWN]),
        (requesting(cpu="1"), requesting(), [POD_REQUEST_SCALED_DOWN]),
        (requesting(cpu="100n"), requesting(cpu="1n"), [POD_OTHER_UPDATE]),  # a milli-CPU each
        (requesting(cpu="1", memory="2"), requesting(cpu="2", memory="1"), [POD_REQUEST_SCALED_DOWN]),
        (requesting({"a": "x"}), requesting(), [POD_LABEL_CHANGE]),
        (requesting({"a": "x"}, cpu="1"), requesting(), [POD_LABEL_CHANGE, POD_REQUEST_SCALED_DOWN]),
    ],
)
def test_an_update_of_a_pod(old: Pod, new: Pod, events: list[ClusterEvent]) -> None:
    assert OLDEST.pod_changes(old, new) == events


def test_a_later_release_names_what_changed_of_which_pod() -> None:
    waiting = requesting({"a": "x"}, cpu="2")
    smaller = requesting({"a": "y"}, cpu="1")
    by_release = {minor: reported_events(rules_of(minor)) for minor in (31, 32, 37)}
    assert {minor: labels(events.own_changes(waiting, smaller)) for minor, events in by_release.items()} == {
        31: ["PodLabelChange", "PodRequestScaledDown"],
        32: ["UnschedulablePodUpdatePodLabel", "UnschedulablePodUpdatePodScaleDown"],
        37: ["TargetPodUpdatePodLabel", "TargetPodUpdatePodScaleDown"],
    }
    running = msgspec.structs.replace(waiting, spec=msgspec.structs.replace(waiting.spec, node_name="a"))
    assert labels(by_release[37].pod_changes(waiting, running)) == ["AssignedPodUpdate"]
    assert labels(by_release[37].pod_changes(smaller, waiting)) == [
        "UnscheduledPodUpdatePodLabel",
        "UnscheduledPodUpdatePodScaleUp",
    ]


def test_from_1_33_a_pod_is_scaled_down_when_its_kubelet_has_done_so() -> None:
    def resized(actual: str) -> Pod:
        reported = ContainerStatus(resources=ReportedResources({"cpu": actual}))
        pod = requesting(cpu="1")
        spec = msgspec.structs.replace(pod.spec, node_name="a")
        return msgspec.structs.replace(pod, spec=spec, status=PodStatus(container_statuses=(reported,)))

    before, after = resized("2"), resized("1")
    events = {minor: labels(reported_events(rules_of(minor)).pod_changes(before, after)) for minor in (32, 33, 37)}
    assert events == {
        32: ["AssignedPodUpdate"],
        33: ["AssignedPodUpdatePodScaleDown"],
        37: ["AssignedPodUpdatePodScaleDown"],
    }
    assert labels(reported_events(rules_of(37)).pod_changes(after, before)) == ["AssignedPodUpdatePodScaleUp"]


def test_a_later_release_reports_tolerations_gates_and_declared_features() -> None:
    gated = Pod(spec=PodSpec(scheduling_gates=(PodSchedulingGate("wait"),)))
    tolerating = Pod(spec=PodSpec(tolerations=(Toleration(operator="Exists"),)))
    later = reported_events(rules_of(37))
    assert labels(later.own_changes(gated, tolerating)) == [
        "TargetPodUpdatePodSchedulingGatesEliminated",
        "TargetPodUpdatePodToleration",
    ]
    in_plural = reported_events(rules_of(32)).own_changes(Pod(), tolerating)
    assert labels(in_plural) == ["UnschedulablePodUpdatePodTolerations"]
    able = Node(status=NodeStatus(declared_features=("A",)))
    assert labels(later.node_changes(Node(), able)) == ["NodeUpdateNodeDeclaredFeature"]
    assert OLDEST.node_changes(Node(), able) == []


@pytest.mark.parametrize(
    "status",
    [
        PendingPodStatus(resource_claim_statuses=(PodResourceClaimStatus("gpu", "gpu-1"),)),
        PendingPodStatus(extended_resource_claim_status=PodExtendedResourceClaimStatus(resource_claim_name="gpu-1")),
    ],
)
def test_a_later_release_reports_that_a_claim_was_made_for_a_pod(status: PendingPodStatus) -> None:
    later = reported_events(rules_of(37))
    assert labels(later.own_changes(PendingPod(), PendingPod(status=status))) == [
        "TargetPodUpdatePodGeneratedResourceClaim"
    ]
    assert labels(later.own_changes(PendingPod(status=status), PendingPod(status=status))) == ["TargetPodUpdate"]
    assert labels(later.own_changes(Pod(), PendingPod())) == ["TargetPodUpdate"]


def test_an_update_of_no_known_kind_is_for_plugins_of_every_update() -> None:
    some, every = (ClusterEvent(POD, action) for action in (ActionType.UPDATE_POD_LABEL, ActionType.UPDATE))
    (unknown,) = reported_events(rules_of(37)).own_changes(Pod(), Pod())
    assert every.covers(unknown)
    assert not some.covers(unknown)

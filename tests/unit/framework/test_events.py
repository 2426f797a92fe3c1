"""What an update of a node or pod means to pods that wait."""

import pytest

from extender_service.framework.cluster_event import ClusterEvent
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
    node_changes,
    pod_changes,
)
from extender_service.kube.types.core import (
    Container,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    ResourceRequirements,
    Taint,
)


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
    assert node_changes(old, new) == events


def test_a_node_may_change_in_several_ways_at_once() -> None:
    old = Node(ObjectMeta(labels={"a": "x"}), NodeSpec(unschedulable=True), NodeStatus({"cpu": "1"}))
    new = Node(ObjectMeta(annotations={"a": "x"}))
    assert node_changes(old, new) == [
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
    assert pod_changes(old, new) == events

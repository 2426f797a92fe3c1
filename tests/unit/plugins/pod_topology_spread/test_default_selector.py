import pytest
from msgspec import structs

from extender_service.cluster.owners.owners import Workloads
from extender_service.cluster.selection.label_sets import label_set
from extender_service.kube.parsing.selectors import EVERYTHING, Selector, label_set_selector
from extender_service.kube.types.core import LabelSelector, ObjectMeta, OwnerReference, Pod, SelectorRequirement
from extender_service.kube.types.workloads import (
    ReplicaSet,
    ReplicaSetSpec,
    ReplicationController,
    ReplicationControllerSpec,
    Service,
    ServiceSpec,
    StatefulSet,
    StatefulSetSpec,
)
from extender_service.plugins.pod_topology_spread.default_selector import default_selector
from tests.support.clusters.hypothetical_worlds import hypothetical_pod

OWNER = ObjectMeta(name="owner", namespace="shop")
WEB = LabelSelector({"app": "web"})


@pytest.fixture
def workloads() -> Workloads:
    workloads = Workloads()
    workloads.apply(Service(OWNER, ServiceSpec({"tier": "front"})))
    workloads.apply(ReplicaSet(OWNER, ReplicaSetSpec(WEB)))
    workloads.apply(StatefulSet(OWNER, StatefulSetSpec(WEB)))
    workloads.apply(ReplicationController(OWNER, ReplicationControllerSpec({"app": "web"})))
    return workloads


def owned(api_version: str, kind: str, *, name: str = "owner", controller: bool = True, namespace: str = "shop") -> Pod:
    pod = hypothetical_pod("new", namespace=namespace, labels={"tier": "front"})
    owner = OwnerReference(api_version, kind, name, controller=controller)
    return structs.replace(pod, metadata=structs.replace(pod.metadata, owner_references=(owner,)))


def selected(workloads: Workloads, pod: Pod) -> Selector:
    metadata = pod.metadata
    return default_selector(workloads, label_set(metadata.namespace, metadata.labels), metadata.owner_references)


def labels(**wanted: str) -> Selector:
    return label_set_selector(wanted)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (owned("apps/v1", "ReplicaSet"), labels(app="web", tier="front")),
        (owned("apps/v1", "StatefulSet"), labels(app="web", tier="front")),
        (owned("v1", "ReplicationController"), labels(app="web", tier="front")),
        (owned("/v1", "ReplicationController"), labels(app="web", tier="front")),
        (owned("//v1", "ReplicationController"), labels(tier="front")),
        (owned("/apps/v1", "ReplicaSet"), labels(tier="front")),
        (owned("apps/v1", "DaemonSet"), labels(tier="front")),
        (owned("extensions/v1beta1", "ReplicaSet"), labels(tier="front")),
        (owned("apps/v1", "ReplicaSet", name="unknown"), labels(tier="front")),
        (owned("apps/v1", "ReplicaSet", controller=False), labels(tier="front")),
        (owned("apps/v1", "ReplicaSet", namespace="bank"), EVERYTHING),
    ],
)
def test_services_and_the_controller_select_together(workloads: Workloads, pod: Pod, expected: Selector) -> None:
    assert selected(workloads, pod) == expected


def test_a_controller_with_a_malformed_selector_adds_nothing(workloads: Workloads) -> None:
    broken = LabelSelector(match_expressions=(SelectorRequirement("app", "Near"),))
    workloads.apply(ReplicaSet(OWNER, ReplicaSetSpec(broken)))
    assert selected(workloads, owned("apps/v1", "ReplicaSet")) == labels(tier="front")

from typing import Any

import msgspec
import pytest

from extender_service.kube.parsing.api_defaults import (
    default_claim,
    default_metadata,
    default_node,
    default_persistent_volume,
    default_pod,
    default_replication_controller,
    default_storage_capacity,
    default_storage_class,
)
from extender_service.kube.parsing.decoder import DecodeError, Decoder
from extender_service.kube.types.core import AzureDisk, Node, ObjectMeta, Pod, ResourceRequirements
from extender_service.kube.types.storage import (
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    StorageClass,
)
from extender_service.kube.types.workloads import ReplicationController

EMPTY = msgspec.Raw(b"{}")


def filled_in_pod(spec: dict[str, Any]) -> Pod:
    source = msgspec.Raw(msgspec.json.encode({"spec": spec}))
    return default_pod(msgspec.json.decode(source, type=Pod), source)


def filled_in_node(status: dict[str, Any]) -> Node:
    source = msgspec.Raw(msgspec.json.encode({"status": status}))
    return default_node(msgspec.json.decode(source, type=Node), source)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [(None, {"app": "web"}), ({}, {"app": "web"}), ({"app": "api"}, {"app": "api"})],
)
def test_a_replication_controller_selects_its_templates_labels_where_it_names_none(
    selector: dict[str, str] | None, expected: dict[str, str]
) -> None:
    spec = {"selector": selector, "template": {"metadata": {"labels": {"app": "web"}}}}
    source = msgspec.Raw(msgspec.json.encode({"spec": spec}))
    controller = default_replication_controller(Decoder(ReplicationController).decode(source), source)
    assert controller.spec.selector == expected


def test_the_uid_is_the_same_at_each_reading() -> None:
    metadata = default_metadata(ObjectMeta(name="web"), namespaced=True)
    assert metadata == ObjectMeta(name="web", namespace="default", uid="default/web")
    assert default_metadata(ObjectMeta(name="node"), namespaced=False) == ObjectMeta(name="node", uid="node")


def test_what_is_given_stays() -> None:
    metadata = ObjectMeta(name="web", namespace="shop", uid="5f0c", labels={"app": "web"})
    assert default_metadata(metadata, namespaced=True) == metadata
    assert filled_in_pod({"schedulerName": "mine"}).spec.scheduler_name == "mine"


def test_the_scheduler_is_the_default_one() -> None:
    assert filled_in_pod({}).spec.scheduler_name == "default-scheduler"


@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_requests_come_from_limits_where_they_are_missing(field: str) -> None:
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m", "example.com/gpu": 1}}
    spec = filled_in_pod({field: [{"resources": resources}, {"image": "nginx"}]}).spec
    first, second = spec.containers or spec.init_containers
    assert first.resources.requests == {"cpu": "100m", "memory": "1Gi", "example.com/gpu": 1}
    assert second.resources.requests == {}


def test_amounts_are_kept_to_milli() -> None:
    spec = filled_in_pod(
        {
            "containers": [{"resources": {"requests": {"cpu": "100u"}, "limits": {"memory": "1.0001"}}}],
            "overhead": {"cpu": "1n"},
        }
    ).spec
    assert spec.containers[0].resources.requests == {"memory": "1001m", "cpu": "1m"}
    assert spec.overhead == {"cpu": "1m"}


def test_on_the_hosts_network_container_ports_are_host_ports() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 443, "hostPort": 8443}]
    containers = [{"ports": ports, "image": "nginx"}]
    shared = filled_in_pod({"hostNetwork": True, "containers": containers}).spec.containers[0]
    assert [port.host_port for port in shared.ports] == [80, 8443]
    own = filled_in_pod({"containers": containers}).spec.containers[0]
    assert [port.host_port for port in own.ports] == [0, 8443]


def test_a_nodes_capacity_is_allocatable_unless_told_otherwise() -> None:
    assert filled_in_node({"capacity": {"cpu": 4}}).status.allocatable == {"cpu": 4}
    assert filled_in_node({"capacity": {"cpu": 4}, "allocatable": {}}).status.allocatable == {}
    assert filled_in_node({"capacity": {"cpu": 4}, "allocatable": {"cpu": 3}}).status.allocatable == {"cpu": 3}


def test_a_malformed_quantity_is_named() -> None:
    with pytest.raises(DecodeError, match=r"'lots' .* - at `\$\.status\.capacity\[cpu\]`"):
        filled_in_node({"capacity": {"cpu": "lots"}})
    with pytest.raises(DecodeError, match=r"at `\$\.spec\.initContainers\[0\]\.resources\.limits\[cpu\]`"):
        filled_in_pod({"initContainers": [{"resources": {"limits": {"cpu": "1x"}}}]})


def test_an_rbd_image_is_in_the_pool_rbd_and_an_azure_disk_is_shared_unless_told_otherwise() -> None:
    volumes = [
        {"name": "a", "rbd": {"image": "i"}},
        {"name": "b", "rbd": {"image": "i", "pool": "mine"}},
        {"name": "c", "azureDisk": {"diskURI": "/disks/1"}},
        {"name": "d", "emptyDir": {}},
    ]
    first, second, third, fourth = filled_in_pod({"volumes": volumes}).spec.volumes
    assert [volume.rbd and volume.rbd.pool for volume in (first, second)] == ["rbd", "mine"]
    assert third.azure_disk == AzureDisk("/disks/1", "Shared")
    assert (fourth.rbd, fourth.azure_disk) == (None, None)
    volume = PersistentVolume(spec=PersistentVolumeSpec(azure_disk=AzureDisk("/disks/1", "Managed")))
    assert default_persistent_volume(volume, EMPTY).spec.azure_disk == AzureDisk("/disks/1", "Managed")


def test_volumes_of_a_class_are_bound_at_once_unless_told_otherwise() -> None:
    assert default_storage_class(StorageClass(), EMPTY).volume_binding_mode == "Immediate"
    late = StorageClass(volume_binding_mode="WaitForFirstConsumer")
    assert default_storage_class(late, EMPTY) == late


def test_malformed_amounts_of_storage_are_named() -> None:
    with pytest.raises(DecodeError, match=r"at `\$\.spec\.capacity\[storage\]`"):
        default_persistent_volume(PersistentVolume(spec=PersistentVolumeSpec(capacity={"storage": "lots"})), EMPTY)
    claim = PersistentVolumeClaim(spec=PersistentVolumeClaimSpec(resources=ResourceRequirements({"storage": "lots"})))
    with pytest.raises(DecodeError, match=r"at `\$\.spec\.resources\.requests\[storage\]`"):
        default_claim(claim, EMPTY)
    with pytest.raises(DecodeError, match=r"at `\$\[maximumVolumeSize\]`"):
        default_storage_capacity(CSIStorageCapacity(capacity="1Gi", maximum_volume_size="lots"), EMPTY)
    assert default_storage_capacity(CSIStorageCapacity(), EMPTY) == CSIStorageCapacity()

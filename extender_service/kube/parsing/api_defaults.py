"""The API server's defaults, for objects that did not pass through an API server, such as those of a cluster file.

The rules are those of pkg/apis/core/v1/defaults.go. Some defaults depend on fields that the object types leave out,
such as a container's limits. These functions read them from the object's JSON.
"""

from msgspec import Raw, structs

from extender_service.kube.parsing.decoder import DecodeError, Decoder
from extender_service.kube.parsing.match_label_keys import merge_label_keys
from extender_service.kube.parsing.quantities import QuantityError, milli_value, parse_quantity
from extender_service.kube.types.core import (
    AzureDisk,
    Container,
    ContainerPort,
    Int32,
    Node,
    Object,
    ObjectMeta,
    Pod,
    ResourceList,
    ResourceRequirements,
    Volume,
)
from extender_service.kube.types.storage import (
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from extender_service.kube.types.workloads import ReplicationController, ReplicationControllerSpec

DEFAULT_NAMESPACE = "default"
DEFAULT_SCHEDULER_NAME = "default-scheduler"

_NANOS_PER_MILLI = 10**6


class _Limits(Object):
    limits: ResourceList = {}


class _Port(Object):
    container_port: Int32 = 0


class _Container(Object):
    resources: _Limits = _Limits()
    ports: tuple[_Port, ...] = ()


class _PodSpec(Object):
    host_network: bool = False
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()


class _Pod(Object):
    spec: _PodSpec = _PodSpec()


class _NodeStatus(Object):
    allocatable: ResourceList | None = None
    capacity: ResourceList = {}


class _Node(Object):
    status: _NodeStatus = _NodeStatus()


class _Template(Object):
    metadata: ObjectMeta = ObjectMeta()


class _ControllerSpec(Object):
    template: _Template = _Template()


class _Controller(Object):
    spec: _ControllerSpec = _ControllerSpec()


_controllers = Decoder(_Controller)
_pods = Decoder(_Pod)
_nodes = Decoder(_Node)


def default_metadata(metadata: ObjectMeta, *, namespaced: bool) -> ObjectMeta:
    """Fill in the namespace and the UID. The UID is "namespace/name", so reading the file again gives the same UID."""
    namespace = (metadata.namespace or DEFAULT_NAMESPACE) if namespaced else ""
    uid = metadata.uid or (f"{namespace}/{metadata.name}" if namespaced else metadata.name)
    return structs.replace(metadata, namespace=namespace, uid=uid)


def default_pod(pod: Pod, source: Raw) -> Pod:
    """Fill in a pod's schedulerName, requests (from limits) and volume defaults; with hostNetwork, its host ports.

    Also merges matchLabelKeys of its pod affinity into the selectors. `source` is the pod's JSON. Raises DecodeError
    for a malformed quantity.
    """
    spec, more = pod.spec, _pods.decode(source).spec
    spec = structs.replace(
        spec,
        scheduler_name=spec.scheduler_name or DEFAULT_SCHEDULER_NAME,
        affinity=spec.affinity and merge_label_keys(spec.affinity, pod.metadata.labels, source),
        containers=_default_containers(spec.containers, more.containers, more, "$.spec.containers"),
        init_containers=_default_containers(spec.init_containers, more.init_containers, more, "$.spec.initContainers"),
        overhead=_round_to_milli(spec.overhead, "$.spec.overhead"),
        volumes=tuple(map(_default_volume, spec.volumes)),
    )
    return structs.replace(pod, spec=spec)


def default_node(node: Node, source: Raw) -> Node:
    """Fill in a node's allocatable resources from its capacity, if they are missing.

    `source` is the node's JSON. Raises DecodeError for a malformed quantity.
    """
    more = _nodes.decode(source).status
    if more.allocatable is None:
        allocatable = _round_to_milli(more.capacity, "$.status.capacity")
    else:
        allocatable = _round_to_milli(more.allocatable, "$.status.allocatable")
    return structs.replace(node, status=structs.replace(node.status, allocatable=allocatable))


def default_persistent_volume(volume: PersistentVolume, _source: Raw) -> PersistentVolume:
    """Fill in the kind of an Azure disk. Raises DecodeError for a malformed quantity."""
    spec = structs.replace(
        volume.spec,
        azure_disk=_default_azure_disk(volume.spec.azure_disk),
        capacity=_round_to_milli(volume.spec.capacity, "$.spec.capacity"),
    )
    return structs.replace(volume, spec=spec)


def default_claim(claim: PersistentVolumeClaim, _source: Raw) -> PersistentVolumeClaim:
    """Round the requested storage up to milli units. Raises DecodeError for a malformed quantity."""
    requests = _round_to_milli(claim.spec.resources.requests, "$.spec.resources.requests")
    return structs.replace(claim, spec=structs.replace(claim.spec, resources=ResourceRequirements(requests)))


def default_storage_capacity(capacity: CSIStorageCapacity, _source: Raw) -> CSIStorageCapacity:
    """Check the quantities; nothing has a default. Raises DecodeError for a malformed quantity."""
    for name, raw in (("capacity", capacity.capacity), ("maximumVolumeSize", capacity.maximum_volume_size)):
        _round_to_milli({} if raw is None else {name: raw}, "$")
    return capacity


def default_storage_class(storage_class: StorageClass, _source: Raw) -> StorageClass:
    """Fill in volumeBindingMode: Immediate."""
    return structs.replace(storage_class, volume_binding_mode=storage_class.volume_binding_mode or "Immediate")


def _default_volume(volume: Volume) -> Volume:
    rbd = volume.rbd
    return structs.replace(
        volume,
        rbd=None if rbd is None else structs.replace(rbd, pool=rbd.pool or "rbd"),
        azure_disk=_default_azure_disk(volume.azure_disk),
    )


def _default_azure_disk(disk: AzureDisk | None) -> AzureDisk | None:
    return None if disk is None else structs.replace(disk, kind=disk.kind or "Shared")


def default_replication_controller(controller: ReplicationController, source: Raw) -> ReplicationController:
    """Fill in a controller's selector from the labels of its pod template, if it is missing.

    `source` is the controller's JSON.
    """
    if controller.spec.selector:
        return controller
    labels = _controllers.decode(source).spec.template.metadata.labels
    return structs.replace(controller, spec=ReplicationControllerSpec(labels))


def _default_containers(
    containers: tuple[Container, ...], more: tuple[_Container, ...], spec: _PodSpec, path: str
) -> tuple[Container, ...]:
    return tuple(
        structs.replace(
            container,
            resources=_default_requests(container.resources, limits.resources, f"{path}[{index}].resources"),
            ports=_default_host_ports(container.ports, limits.ports) if spec.host_network else container.ports,
        )
        for index, (container, limits) in enumerate(zip(containers, more, strict=True))
    )


def _default_requests(resources: ResourceRequirements, more: _Limits, path: str) -> ResourceRequirements:
    limits = _round_to_milli(more.limits, f"{path}.limits")
    return ResourceRequirements(limits | _round_to_milli(resources.requests, f"{path}.requests"))


def _default_host_ports(ports: tuple[ContainerPort, ...], more: tuple[_Port, ...]) -> tuple[ContainerPort, ...]:
    return tuple(
        structs.replace(port, host_port=port.host_port or container.container_port)
        for port, container in zip(ports, more, strict=True)
    )


def _round_to_milli(resources: ResourceList, path: str) -> ResourceList:
    """Round amounts up to milli units, as the API server stores them."""
    rounded: ResourceList = {}
    for name, raw in resources.items():
        try:
            nanos = parse_quantity(raw)
        except QuantityError as error:
            raise DecodeError(f"{error} - at `{path}[{name}]`") from error
        rounded[name] = f"{milli_value(nanos)}m" if nanos % _NANOS_PER_MILLI else raw
    return rounded

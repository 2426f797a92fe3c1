"""Storage objects, reduced to the fields that scheduling reads (k8s.io/api core/v1 and storage/v1)."""

from extender_service.kube.types.core import (
    Int32,
    InTreeSources,
    LabelSelector,
    NodeSelector,
    Object,
    ObjectMeta,
    RawQuantity,
    ResourceList,
    ResourceRequirements,
)

STORAGE = "storage"
BETA_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
SELECTED_NODE_ANNOTATION = "volume.kubernetes.io/selected-node"
BIND_COMPLETED_ANNOTATION = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER_ANNOTATION = "pv.kubernetes.io/bound-by-controller"
# A volume binding mode: claims are bound once a pod that uses them has a node.
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"


class CSISource(Object):
    """v1.CSIPersistentVolumeSource."""

    driver: str = ""
    volume_handle: str = ""


class ClaimReference(Object):
    """The claim that a volume is bound to, or reserved for (v1.ObjectReference)."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class VolumeNodeAffinity(Object):
    """v1.VolumeNodeAffinity: the nodes that can access a volume."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(InTreeSources):
    """v1.PersistentVolumeSpec."""

    csi: CSISource | None = None
    capacity: ResourceList = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ClaimReference | None = None
    storage_class_name: str = ""
    volume_mode: str = ""
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str = ""


class Phase(Object):
    """The status of a volume or claim, only its phase, such as Bound."""

    phase: str = ""


class PersistentVolume(Object):
    """v1.PersistentVolume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: Phase = Phase()

    @property
    def class_name(self) -> str:
        """The storage class, empty for none. BETA_CLASS_ANNOTATION takes precedence over the spec."""
        return self.metadata.annotations.get(BETA_CLASS_ANNOTATION, self.spec.storage_class_name)


class PersistentVolumeClaimSpec(Object):
    """v1.PersistentVolumeClaimSpec."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()
    volume_name: str = ""
    storage_class_name: str = ""
    volume_mode: str = ""
    volume_attributes_class_name: str = ""


class PersistentVolumeClaim(Object):
    """v1.PersistentVolumeClaim."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: Phase = Phase()

    @property
    def class_name(self) -> str:
        """The storage class, empty for none. BETA_CLASS_ANNOTATION takes precedence over the spec."""
        return self.metadata.annotations.get(BETA_CLASS_ANNOTATION, self.spec.storage_class_name)

    @property
    def is_bound(self) -> bool:
        """Whether the PV controller has finished binding: the claim to a volume, and the volume to the claim."""
        return bool(self.spec.volume_name) and BIND_COMPLETED_ANNOTATION in self.metadata.annotations

    @property
    def request(self) -> RawQuantity | None:
        """The requested storage, as a quantity before parsing; None if the claim has no request."""
        return self.spec.resources.requests.get(STORAGE)


class TopologyRequirement(Object):
    """The allowed values of a node's label (v1.TopologySelectorLabelRequirement)."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologyTerm(Object):
    """Requirements on a node's labels. All must hold (v1.TopologySelectorTerm)."""

    match_label_expressions: tuple[TopologyRequirement, ...] = ()


class StorageClass(Object):
    """storage/v1.StorageClass. A `volume_binding_mode` of None is unset."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologyTerm, ...] = ()


class VolumeNodeResources(Object):
    """How many volumes of a driver a node can attach; None for no limit."""

    count: Int32 | None = None


class CSINodeDriver(Object):
    """A driver on a node (storage/v1.CSINodeDriver)."""

    name: str = ""
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Object):
    """storage/v1.CSINodeSpec."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Object):
    """storage/v1.CSINode. Its name is that of its node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Object):
    """storage/v1.CSIDriverSpec."""

    storage_capacity: bool = False
    prevent_pod_scheduling_if_missing: bool = False


class CSIDriver(Object):
    """storage/v1.CSIDriver."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSIDriverSpec = CSIDriverSpec()


class VolumeAttachmentSource(Object):
    """storage/v1.VolumeAttachmentSource."""

    persistent_volume_name: str = ""


class VolumeAttachmentSpec(Object):
    """storage/v1.VolumeAttachmentSpec."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(Object):
    """storage/v1.VolumeAttachment: a volume that a driver attaches to a node, has attached, or is to detach."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


class CSIStorageCapacity(Object):
    """storage/v1.CSIStorageCapacity: the free capacity for a storage class in one topology segment."""

    metadata: ObjectMeta = ObjectMeta()
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: RawQuantity | None = None
    maximum_volume_size: RawQuantity | None = None


# The storage kinds that scheduling reads, by (apiVersion, kind).
STORAGE_KINDS: dict[tuple[str, str], type[Object]] = {
    ("v1", "PersistentVolume"): PersistentVolume,
    ("v1", "PersistentVolumeClaim"): PersistentVolumeClaim,
    ("storage.k8s.io/v1", "StorageClass"): StorageClass,
    ("storage.k8s.io/v1", "CSINode"): CSINode,
    ("storage.k8s.io/v1", "CSIDriver"): CSIDriver,
    ("storage.k8s.io/v1", "CSIStorageCapacity"): CSIStorageCapacity,
    ("storage.k8s.io/v1", "VolumeAttachment"): VolumeAttachment,
}

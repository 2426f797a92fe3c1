"""Short ways to write volumes, claims, classes and pods with volumes in tests."""

from collections.abc import Mapping, Sequence

from extender_service.kube.types.core import (
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    OwnerReference,
    PersistentVolumeClaimSource,
    Pod,
    PodSpec,
    ResourceRequirements,
    SelectorRequirement,
    Source,
    Volume,
)
from extender_service.kube.types.storage import (
    ClaimReference,
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSISource,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    Phase,
    StorageClass,
    TopologyRequirement,
    TopologyTerm,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeNodeAffinity,
    VolumeNodeResources,
)

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
WAIT = "WaitForFirstConsumer"


def make_claim(
    name: str,
    volume: str = "",
    *,
    size: str | None = "1Gi",
    class_name: str = "",
    modes: Sequence[str] = ("ReadWriteOnce",),
    selector: LabelSelector | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: str = "",
    phase: str = "",
    deleted: bool = False,
    attributes_class: str = "",
) -> PersistentVolumeClaim:
    """A claim in namespace default; with a volume, it is bound."""
    notes = {**(annotations or {}), **({BIND_COMPLETED: "yes"} if volume else {})}
    return PersistentVolumeClaim(
        ObjectMeta(
            name=name,
            namespace="default",
            uid=f"uid-of-{name}",
            annotations=notes,
            owner_references=(OwnerReference(uid=owner, controller=True),) if owner else (),
            deletion_timestamp="2024-01-01T00:00:00Z" if deleted else "",
        ),
        PersistentVolumeClaimSpec(
            access_modes=tuple(modes),
            selector=selector,
            resources=ResourceRequirements({} if size is None else {"storage": size}),
            volume_name=volume,
            storage_class_name=class_name,
            volume_attributes_class_name=attributes_class,
        ),
        Phase(phase),
    )


def make_volume(
    name: str,
    spec: PersistentVolumeSpec | None = None,
    *,
    driver: str = "csi.example.com",
    handle: str = "",
    size: str = "1Gi",
    class_name: str = "",
    only: Mapping[str, Sequence[str]] | None = None,
    labels: Mapping[str, str] | None = None,
    claim: ClaimReference | None = None,
    phase: str = "Available",
    modes: Sequence[str] = ("ReadWriteOnce",),
) -> PersistentVolume:
    """A volume, by default of a CSI driver; `only` are the values of labels that nodes must have to reach it."""
    affinity = None
    if only is not None:
        requirements = tuple(SelectorRequirement(key, "In", tuple(values)) for key, values in only.items())
        affinity = VolumeNodeAffinity(NodeSelector((NodeSelectorTerm(requirements),)))
    return PersistentVolume(
        ObjectMeta(name=name, labels=dict(labels or {})),
        spec
        or PersistentVolumeSpec(
            csi=CSISource(driver, handle or name),
            capacity={"storage": size},
            access_modes=tuple(modes),
            claim_ref=claim,
            storage_class_name=class_name,
            node_affinity=affinity,
        ),
        Phase(phase),
    )


def make_class(
    name: str, provisioner: str = "csi.example.com", mode: str | None = WAIT, *, only: Mapping[str, str] | None = None
) -> StorageClass:
    """A storage class; with `only`, for nodes with these labels."""
    requirements = tuple(TopologyRequirement(key, (value,)) for key, value in (only or {}).items())
    return StorageClass(
        ObjectMeta(name=name), provisioner, mode, (TopologyTerm(requirements),) if only is not None else ()
    )


def make_csi_node(name: str, limits: Mapping[str, int] | None = None, *, migrated: str | None = None) -> CSINode:
    """The CSINode of a node: limits by driver, and the plugins that are migrated."""
    annotations = {} if migrated is None else {MIGRATED: migrated}
    drivers = tuple(CSINodeDriver(driver, VolumeNodeResources(count)) for driver, count in (limits or {}).items())
    return CSINode(ObjectMeta(name=name, annotations=annotations), CSINodeSpec(drivers))


def make_driver(name: str, *, storage_capacity: bool = False, insists: bool = False) -> CSIDriver:
    """A CSI driver: whether it publishes its capacity, and whether it keeps pods off nodes that do not have it."""
    return CSIDriver(ObjectMeta(name=name), CSIDriverSpec(storage_capacity, insists))


def make_attachment(name: str, node: str, volume: str, driver: str = "csi.example.com") -> VolumeAttachment:
    """What attaches a volume to a node."""
    return VolumeAttachment(ObjectMeta(name=name), VolumeAttachmentSpec(driver, node, VolumeAttachmentSource(volume)))


def make_capacity(
    name: str, class_name: str, capacity: str | None, topology: LabelSelector | None, *, largest: str | None = None
) -> CSIStorageCapacity:
    """What is left of a class in a topology."""
    return CSIStorageCapacity(
        ObjectMeta(name=name, namespace="kube-system"), class_name, topology, capacity, maximum_volume_size=largest
    )


def with_claims(name: str, *claims: str, node: str = "", namespace: str = "default") -> Pod:
    """A pod that uses claims."""
    return with_volumes(
        name,
        *(Volume(name=claim, persistent_volume_claim=PersistentVolumeClaimSource(claim)) for claim in claims),
        node=node,
        namespace=namespace,
    )


def with_volumes(name: str, *volumes: Volume, node: str = "", namespace: str = "default") -> Pod:
    """A pod with volumes."""
    return Pod(
        ObjectMeta(name=name, namespace=namespace, uid=f"uid-of-{name}"),
        PodSpec(node_name=node, volumes=volumes),
    )


def ephemeral(name: str) -> Volume:
    """A generic ephemeral volume."""
    return Volume(name=name, ephemeral=Source())

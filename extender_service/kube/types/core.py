"""Kubernetes objects, reduced to the fields that scheduling reads.

Every type is a frozen msgspec Struct: fields not listed are skipped while decoding, and equal values compare and hash
equal, so that the cluster can store equal values once. Names and meanings are those of the Kubernetes API types
(k8s.io/api core/v1). `gc=False` keeps the garbage collector from walking hundreds of thousands of objects; it is safe
because these types cannot form cycles.
"""

from typing import Annotated, dataclass_transform

import msgspec

# Go's decoder refuses numbers that overflow its types. So do we, because a column cannot hold them.
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

# A quantity before parsing: usually a string, but a manifest may hold a bare number.
RawQuantity = str | int | float
ResourceList = dict[str, RawQuantity]


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Object(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Base of all object types: camelCase on the wire, immutable, invisible to the garbage collector."""


class OwnerReference(Object):
    """metav1.OwnerReference."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Metadata(Object):
    """The fields of metav1.ObjectMeta that identify an object and its version."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class ObjectMeta(Metadata):
    """metav1.ObjectMeta. Timestamps stay RFC 3339 text in UTC; this text sorts by time."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: str = ""
    deletion_timestamp: str = ""


class SelectorRequirement(Object):
    """One requirement of a label selector (metav1.LabelSelectorRequirement) or node selector term."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Object):
    """metav1.LabelSelector."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[SelectorRequirement, ...] = ()


class NodeSelectorTerm(Object):
    """Requirements on a node's labels and fields. All must hold. An empty term matches no node."""

    match_expressions: tuple[SelectorRequirement, ...] = ()
    match_fields: tuple[SelectorRequirement, ...] = ()


class NodeSelector(Object):
    """v1.NodeSelector; at least one term must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Object):
    """A node selector term and the points (`weight`) for a node that it matches. Here, an empty term matches all."""

    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Object):
    """v1.NodeAffinity: the nodes that a pod requires, and those that it prefers."""

    required: NodeSelector | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=()
    )


class PodAffinityTerm(Object):
    """v1.PodAffinityTerm: selects pods by labels and namespaces, near a node in terms of `topologyKey`."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


class WeightedPodAffinityTerm(Object):
    """v1.WeightedPodAffinityTerm."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Object):
    """v1.PodAffinity and v1.PodAntiAffinity, which have the same fields."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=()
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=()
    )


class Affinity(Object):
    """v1.Affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Object):
    """v1.Toleration; an empty key, value or effect matches as in Kubernetes, an empty operator is Equal."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class Taint(Object):
    """v1.Taint."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str = ""


class ContainerPort(Object):
    """v1.ContainerPort, only the fields about the host's port."""

    host_port: Int32 = 0
    host_ip: str = msgspec.field(name="hostIP", default="")
    protocol: str = ""


class ResourceRequirements(Object):
    """v1.ResourceRequirements; only requests count for scheduling."""

    requests: ResourceList = {}


class PodResources(ResourceRequirements):
    """v1.ResourceRequirements for a pod as a whole, which Kubernetes has from 1.32 on."""

    limits: ResourceList = {}


class PodResourceClaim(Object):
    """v1.PodResourceClaim."""

    name: str = ""


class PodSchedulingGroup(Object):
    """v1.PodSchedulingGroup; scheduling only reads whether it is set."""


class WorkloadReference(Object):
    """v1.WorkloadReference, which only 1.35 has; scheduling only reads whether it is set."""


class ContainerRestartRule(Object):
    """v1.ContainerRestartRule."""

    action: str = ""


class VolumeMount(Object):
    """v1.VolumeMount."""

    bind_mount_options: tuple[str, ...] = ()


class Container(Object):
    """v1.Container."""

    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    name: str = ""
    volume_mounts: tuple[VolumeMount, ...] = ()


class EphemeralContainer(Object):
    """v1.EphemeralContainer. It cannot change, only be added."""

    name: str = ""
    volume_mounts: tuple[VolumeMount, ...] = ()


class GCEPersistentDisk(Object):
    """v1.GCEPersistentDiskVolumeSource."""

    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStore(Object):
    """v1.AWSElasticBlockStoreVolumeSource."""

    volume_id: str = msgspec.field(name="volumeID", default="")


class ISCSI(Object):
    """v1.ISCSIVolumeSource."""

    iqn: str = ""
    read_only: bool = False


class RBD(Object):
    """v1.RBDVolumeSource."""

    monitors: tuple[str, ...] = ()
    pool: str = ""
    image: str = ""
    read_only: bool = False


class AzureDisk(Object):
    """v1.AzureDiskVolumeSource; None stands for an unset kind."""

    disk_uri: str = msgspec.field(name="diskURI", default="")
    kind: str | None = None
    disk_name: str = ""


class VolumeID(Object):
    """The volume's ID, the one field that we read of v1.CinderVolumeSource and v1.PortworxVolumeSource."""

    volume_id: str = msgspec.field(name="volumeID", default="")


class Source(Object):
    """A volume source; scheduling only reads whether it is set."""


class InlineCSISource(Object):
    """v1.CSIVolumeSource."""

    driver: str = ""


class ImageSource(Object):
    """v1.ImageVolumeSource."""

    reference: str = ""


class PersistentVolumeClaimSource(Object):
    """v1.PersistentVolumeClaimVolumeSource."""

    claim_name: str = ""


class InTreeSources(Object):
    """In-tree volume sources that CSI drivers replaced. Pods and persistent volumes share these fields; one is set."""

    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    azure_file: Source | None = None
    cinder: VolumeID | None = None
    portworx_volume: VolumeID | None = None
    vsphere_volume: Source | None = None


class Volume(InTreeSources):
    """v1.Volume without the sources that scheduling does not read. At most one source is set."""

    name: str = ""
    iscsi: ISCSI | None = None
    rbd: RBD | None = None
    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    ephemeral: Source | None = None
    image: ImageSource | None = None
    csi: InlineCSISource | None = None


class TopologySpreadConstraint(Object):
    """v1.TopologySpreadConstraint. None means that the pod does not set the field."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class PodSchedulingGate(Object):
    """v1.PodSchedulingGate."""

    name: str = ""


class PodSpec(Object):
    """v1.PodSpec."""

    node_name: str = ""
    scheduler_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[EphemeralContainer, ...] = ()
    overhead: ResourceList = {}
    priority: Int32 = 0
    preemption_policy: str = ""
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    volumes: tuple[Volume, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    resources: PodResources | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    workload_ref: WorkloadReference | None = None
    host_network: bool = False
    host_users: bool | None = None


class PodCondition(Object):
    """v1.PodCondition."""

    type: str = ""
    status: str = ""
    reason: str = ""


class ReportedResources(Object):
    """v1.ResourceRequirements in a status. None means that the kubelet does not report requests."""

    requests: ResourceList | None = None


class ContainerStatus(Object):
    """v1.ContainerStatus: what a container has of its node, as its kubelet reports."""

    name: str = ""
    allocated_resources: ResourceList | None = None
    resources: ReportedResources | None = None


class PodStatus(Object):
    """v1.PodStatus."""

    phase: str = ""
    nominated_node_name: str = ""
    start_time: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: ResourceList | None = None
    resources: ReportedResources | None = None


class Pod(Object):
    """v1.Pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NodeSpec(Object):
    """v1.NodeSpec."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class ContainerImage(Object):
    """v1.ContainerImage."""

    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class NodeCondition(Object):
    """v1.NodeCondition without its times, which each heartbeat changes."""

    type: str = ""
    status: str = ""


class NodeStatus(Object):
    """v1.NodeStatus."""

    allocatable: ResourceList = {}
    images: tuple[ContainerImage, ...] = ()
    conditions: tuple[NodeCondition, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(Object):
    """v1.Node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


def pod_name(pod: Pod) -> str:
    """Return namespace/name."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def condition_statuses(node: Node) -> dict[str, str]:
    """Return the status of each of a node's conditions, by its type."""
    return {condition.type: condition.status for condition in node.status.conditions}


def runs_as_sidecar(restart_policy: str) -> bool:
    """Return whether an init container with this restart policy goes on beside the pod's containers (KEP-753)."""
    return restart_policy == "Always"

"""The door for authors of plugins: all that a plugin imports from this package, and most of what its test does.

    from extender_service.plugin_api import Filter, NodeView, Rejections, unschedulable

A test may also import from `extender_service.testing`, and tests and programs from `extender_service.simulation`. Every
other module is internal: it may move, change or go away in any release. Code of this package imports from the modules
themselves, never from here.

**What is stable.** A name in `__all__` keeps its meaning until the next major version; before 1.0, until the next minor
version. So do the public attributes and methods of its class. The service alone makes `Cluster`, `Handle`,
`LabelColumn`, `NodeInfo`, `NodeView`, `Placement`, `PodFacts`, `PodInfo`, `QueuedPod`, `Verdicts` and `WaitingPod`, so
their constructors may change. Of these classes only what is listed here is stable:

- Of `Handle`: `handle.cluster`, `.waiting_pods`, and `.pods` with `pods.get_pod` and `pods.bind_pod`. You can iterate
  over `waiting_pods`, and `waiting_pods.get(uid)` finds one pod. `handle.activate(pods)` has pods tried at once that
  wait in the queue of `schedule`. `handle.clock()` returns seconds that only grow, `handle.sleep(seconds)`, to be
  awaited, waits by this clock, and `handle.random` is a Random of the module random; a test passes its own to Trial.
  `handle.simulated` is true in a Simulation and with `schedule --cluster-file`: change nothing outside then.
- Of `Cluster`, which is `handle.cluster`:
    - `cluster.node_count` and `.node_names()`; `.view(None)` is a `NodeView` of all nodes
    - `cluster.pod_count`, `.count_pods(query)`, and `.pod(uid)`, a `PodFacts`; `.slot_on(uid, node_name)` is the pod's
      slot, for `RowChanges` and `PostFilterResult`
    - `cluster.count_pods_on(nodes, query)`, an array with an entry for each node of a `NodeView`
    - `cluster.placements`, the pods that count on a node before the watch shows them there. You can iterate over them,
      and `placements.get(uid)` finds one
    - `cluster.workloads`: `workloads.of(kind)` maps (namespace, name) to object, `.get(kind, namespace, name)` finds
      one, `.namespace_labels(namespace)` are the labels of a namespace
    - `cluster.storage`: `storage.of(kind)`, as above; by name `.claim(namespace, name)`, `.volume(name)`,
      `.storage_class(name)` and `.driver(name)`
    - `cluster.version`, equal as long as nothing changes that a decision depends on, except for nominated pods
- Of `NodeView`, besides `len(nodes)`:
    - `nodes.names`, `.name_at`, `.names_at`, `.is_named`, `.position_of`, `.positions_of`, `.objects`, `.exists`
    - `nodes.label`, `.unschedulable`, `.taint_set`, `.taint_sets`, `.port_sets`, `.image`, `.has_image`
    - `nodes.dimension`, `.allocatable`, `.requested`, `.allocatable_of`, `.requested_of`
    - `nodes.pods_at(position)`, a list of `PodInfo`
    - `nodes.at`, `.changed`, `.cluster_size`, `.kept_by_facts`, `.kept_by_room`, `.remembered`, `.remembered_at`
- Of `LabelColumn`: `column.integers`, and `column.values`, where `values.values` are the texts by number (None where a
  number is unused) and `values.number_of(text)` is the number of a text (-1 if no node has it).
- Of `NodeInfo`: `node.name`, `.labels`, `.annotations`, `.taints`, `.pod_count`, `.pods`, a list of `PodInfo`,
  `.allocatable(resource)`, `.requested(resource)`, `.free(resource)` and `.object`.
- Of `QueuedPod`: `queued.pod` and `.queued_at`.
- Of `WaitingPod`: `waiting.pod`, `.node_name`, `.pending_plugins`, `.is_waiting`, `.is_rejected`, `.allow(plugin)` and
  `.reject(plugin, message)`.
- Of `Verdicts`: `verdicts.view`, `.passing`, `.groups` and `.rejected_with`.
- Of `CycleState`: `state[key]`, `key in state`, `state.read`, `.require_time`, `.pod`, `.deadline`, and
  `.request_shape`, which is for `pod_requests`. A test may make one: `CycleState(pod)`.
- Of `PodFacts`: `facts.namespace`, `.name`, `.uid`, `.node_name` and `.nominated_node_name`.
- Of `PodInfo`: `info.namespace`, `.name`, `.uid`, `.labels`, `.priority`, `.requests`, `.terminating` and `.slot`.
- Of `Placement`: `placement.pod`, `.uid`, `.node_name` and `.assumed`, true once the pod is being bound, from right
  before Permit on, and false while the service only expects kube-scheduler to bind it.

Of `PodQuery` and `PodSelector`, the fields are stable. Of `Image`, `RequestShape` and `Selector`, which some calls
return and others take, only the names are, and of `KubeSchedulerConfiguration` and `Rules` in
`extender_service.simulation`. The methods `points_in` and `reads_in` of a plugin are for those in tree. The type of an
attribute that is not exported, such as that of `handle.waiting_pods` or `column.values`, is internal: annotate what you
pass on with the type that has it.

API types have the fields that scheduling reads, in no stable order: pass them by keyword. Only `metadata`, `spec` and
`status` of `Node` and `Pod` stay in this order.
"""

from extender_service.cluster.amounts.requests import PodRequests, RequestShape, pod_requests
from extender_service.cluster.nodes.images import Image
from extender_service.cluster.nodes.label_columns import ABSENT, LabelColumn
from extender_service.cluster.pods.pod_counts import PodQuery
from extender_service.cluster.pods.pod_table import PodFacts
from extender_service.cluster.selection.label_sets import PodSelector
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.state.node_info import NodeInfo, node_named
from extender_service.cluster.state.placements import Placement
from extender_service.cluster.view.hypothetical import RowChanges
from extender_service.cluster.view.node_view import NodeView
from extender_service.cluster.view.pod_info import PodInfo
from extender_service.config.model import Many, Model
from extender_service.framework.cluster_event import (
    ASSIGNED_POD,
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    STORAGE_CLASS,
    TARGET_POD,
    UNSCHEDULED_POD,
    VOLUME_ATTACHMENT,
    WILD_CARD,
    ActionType,
    ClusterEvent,
    QueueingHint,
)
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    Bind,
    Candidate,
    Filter,
    FilterAgain,
    Needs,
    Permit,
    Plugin,
    PostBind,
    PostFilter,
    PostFilterResult,
    PreBind,
    PreEnqueue,
    PreFilter,
    PreScore,
    QueuedPod,
    QueueSort,
    Reach,
    Reserve,
    Score,
)
from extender_service.framework.per_node import FilterNode, ScoreNode
from extender_service.framework.plugin_errors import CycleError, NoTimeLeftError, PluginError
from extender_service.framework.status import SKIP, Code, Rejections, Status, unresolvable, unschedulable
from extender_service.framework.verdicts import Verdicts
from extender_service.framework.waiting_pods import MAX_WAIT_SECONDS, WaitingPod
from extender_service.kube.api_errors import KubeError
from extender_service.kube.parsing.selectors import Selector, label_set_selector
from extender_service.kube.types.core import (
    Affinity,
    Container,
    ContainerImage,
    ContainerPort,
    LabelSelector,
    Node,
    NodeAffinity,
    NodeCondition,
    NodeSelector,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    Object,
    ObjectMeta,
    OwnerReference,
    PersistentVolumeClaimSource,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodCondition,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    PreferredSchedulingTerm,
    ResourceRequirements,
    SelectorRequirement,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    Volume,
    WeightedPodAffinityTerm,
)
from extender_service.kube.types.pods import pod_uid
from extender_service.kube.types.policy import PodDisruptionBudget
from extender_service.kube.types.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from extender_service.kube.types.workloads import Namespace, ReplicaSet, ReplicationController, Service, StatefulSet
from extender_service.plugins.shared.normalization import scale_to_max

__all__ = [
    "ABSENT",
    "ASSIGNED_POD",
    "CSI_DRIVER",
    "CSI_NODE",
    "CSI_STORAGE_CAPACITY",
    "MAX_NODE_SCORE",
    "MAX_WAIT_SECONDS",
    "MIN_NODE_SCORE",
    "NODE",
    "PERSISTENT_VOLUME",
    "PERSISTENT_VOLUME_CLAIM",
    "POD",
    "SKIP",
    "STORAGE_CLASS",
    "TARGET_POD",
    "UNSCHEDULED_POD",
    "VOLUME_ATTACHMENT",
    "WILD_CARD",
    "ActionType",
    "Affinity",
    "Bind",
    "CSIDriver",
    "CSINode",
    "CSIStorageCapacity",
    "Candidate",
    "Cluster",
    "ClusterEvent",
    "Code",
    "Container",
    "ContainerImage",
    "ContainerPort",
    "CycleError",
    "CycleState",
    "Filter",
    "FilterAgain",
    "FilterNode",
    "Handle",
    "Image",
    "KubeError",
    "LabelColumn",
    "LabelSelector",
    "Many",
    "Model",
    "Namespace",
    "Needs",
    "NoTimeLeftError",
    "Node",
    "NodeAffinity",
    "NodeCondition",
    "NodeInfo",
    "NodeSelector",
    "NodeSelectorTerm",
    "NodeSpec",
    "NodeStatus",
    "NodeView",
    "Object",
    "ObjectMeta",
    "OwnerReference",
    "Permit",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimSource",
    "Placement",
    "Plugin",
    "PluginError",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodCondition",
    "PodDisruptionBudget",
    "PodFacts",
    "PodInfo",
    "PodQuery",
    "PodRequests",
    "PodSchedulingGate",
    "PodSelector",
    "PodSpec",
    "PodStatus",
    "PostBind",
    "PostFilter",
    "PostFilterResult",
    "PreBind",
    "PreEnqueue",
    "PreFilter",
    "PreScore",
    "PreferredSchedulingTerm",
    "QueueSort",
    "QueuedPod",
    "QueueingHint",
    "Reach",
    "Rejections",
    "ReplicaSet",
    "ReplicationController",
    "RequestShape",
    "Reserve",
    "ResourceRequirements",
    "RowChanges",
    "Score",
    "ScoreNode",
    "Selector",
    "SelectorRequirement",
    "Service",
    "StatefulSet",
    "Status",
    "StorageClass",
    "Taint",
    "Toleration",
    "TopologySpreadConstraint",
    "Verdicts",
    "Volume",
    "VolumeAttachment",
    "WaitingPod",
    "WeightedPodAffinityTerm",
    "label_set_selector",
    "node_named",
    "pod_requests",
    "pod_uid",
    "scale_to_max",
    "unresolvable",
    "unschedulable",
]

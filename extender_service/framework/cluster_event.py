"""Changes of the cluster that can make a rejected pod schedulable, named as in kube-scheduler (framework/types.go)."""

import enum
from typing import Final, NamedTuple

POD: Final = "Pod"
# Which pods a change is about, in later releases: pods on a node, other pods that wait, and the pod itself that waits.
ASSIGNED_POD: Final = "AssignedPod"
UNSCHEDULED_POD: Final = "UnscheduledPod"
TARGET_POD: Final = "TargetPod"
NODE: Final = "Node"
PERSISTENT_VOLUME: Final = "PersistentVolume"
PERSISTENT_VOLUME_CLAIM: Final = "PersistentVolumeClaim"
CSI_NODE: Final = "storage.k8s.io/CSINode"
CSI_DRIVER: Final = "storage.k8s.io/CSIDriver"
CSI_STORAGE_CAPACITY: Final = "storage.k8s.io/CSIStorageCapacity"
VOLUME_ATTACHMENT: Final = "storage.k8s.io/VolumeAttachment"
STORAGE_CLASS: Final = "storage.k8s.io/StorageClass"
WILD_CARD: Final = "*"

# v1.32 to v1.36 know two kinds of pods, and call those that wait so.
UNSCHEDULABLE_POD: Final = "UnschedulablePod"
KINDS_OF_PODS: Final = frozenset((ASSIGNED_POD, UNSCHEDULED_POD, TARGET_POD, UNSCHEDULABLE_POD))


class ActionType(enum.IntFlag):
    """What happened to an object; an update says which part of a node or pod changed."""

    ADD = enum.auto()
    DELETE = enum.auto()
    UPDATE_NODE_ALLOCATABLE = enum.auto()
    UPDATE_NODE_LABEL = enum.auto()
    UPDATE_NODE_TAINT = enum.auto()
    UPDATE_NODE_CONDITION = enum.auto()
    UPDATE_NODE_ANNOTATION = enum.auto()
    UPDATE_POD_LABEL = enum.auto()
    UPDATE_POD_SCALE_DOWN = enum.auto()
    UPDATE_POD_OTHER = enum.auto()
    # In later releases.
    UPDATE_POD_SCALE_UP = enum.auto()
    UPDATE_POD_TOLERATION = enum.auto()
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = enum.auto()
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = enum.auto()
    UPDATE_NODE_DECLARED_FEATURE = enum.auto()

    UPDATE = (
        UPDATE_NODE_ALLOCATABLE
        | UPDATE_NODE_LABEL
        | UPDATE_NODE_TAINT
        | UPDATE_NODE_CONDITION
        | UPDATE_NODE_ANNOTATION
        | UPDATE_POD_LABEL
        | UPDATE_POD_SCALE_DOWN
        | UPDATE_POD_OTHER
        | UPDATE_POD_SCALE_UP
        | UPDATE_POD_TOLERATION
        | UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        | UPDATE_POD_GENERATED_RESOURCE_CLAIM
        | UPDATE_NODE_DECLARED_FEATURE
    )
    ALL = ADD | DELETE | UPDATE


class ClusterEvent(NamedTuple):
    """A kind of change: of which resource (a kind, "group/Kind" or "plural.version.group"), and what happened to it."""

    resource: str
    action: ActionType
    # What logs and metrics call it; no part of what it matches.
    label: str = ""

    @property
    def is_wild_card(self) -> bool:
        """Whether it stands for every change of every resource."""
        return self.resource == WILD_CARD and self.action == ActionType.ALL

    def matches(self, event: "ClusterEvent") -> bool:
        """Return whether a plugin that registered this event wants `event` (ClusterEvent.Match)."""
        return self.is_wild_card or (self._is_about(event.resource) and bool(self.action & event.action))

    def covers(self, event: "ClusterEvent") -> bool:
        """Return whether this event has all of `event` (MatchClusterEvents from v1.34 on).

        An update that is none of the known ones is then only for those who registered every update.
        """
        return self.is_wild_card or (self._is_about(event.resource) and event.action in self.action)

    def _is_about(self, resource: str) -> bool:
        return self.resource in (WILD_CARD, resource) or (self.resource == POD and resource in KINDS_OF_PODS)


# Every change of a kind that the scheduler watches of itself (UnrollWildCardResource). ResourceClaims and DeviceClasses
# are left out: before v1.34, their events do not come by default, and no plugin here judges devices.
EVERY_CHANGE: Final = tuple(
    ClusterEvent(resource, ActionType.ALL)
    for resource in (
        POD,
        NODE,
        PERSISTENT_VOLUME,
        PERSISTENT_VOLUME_CLAIM,
        CSI_NODE,
        CSI_DRIVER,
        CSI_STORAGE_CAPACITY,
        STORAGE_CLASS,
    )
)


class QueueingHint(enum.Enum):
    """Whether a change can make a rejected pod schedulable."""

    SKIP = "QueueSkip"
    QUEUE = "Queue"

    @classmethod
    def queue_if(cls, helps: bool) -> "QueueingHint":  # noqa: FBT001 - the name says what it means
        """Return QUEUE if the change helps, else SKIP."""
        return cls.QUEUE if helps else cls.SKIP

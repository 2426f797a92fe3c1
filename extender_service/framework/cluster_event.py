"""Changes of the cluster that can make a rejected pod schedulable, named as in kube-scheduler (framework/types.go)."""

import enum
from typing import Final, NamedTuple

POD: Final = "Pod"
NODE: Final = "Node"
PERSISTENT_VOLUME: Final = "PersistentVolume"
PERSISTENT_VOLUME_CLAIM: Final = "PersistentVolumeClaim"
CSI_NODE: Final = "storage.k8s.io/CSINode"
CSI_DRIVER: Final = "storage.k8s.io/CSIDriver"
CSI_STORAGE_CAPACITY: Final = "storage.k8s.io/CSIStorageCapacity"
VOLUME_ATTACHMENT: Final = "storage.k8s.io/VolumeAttachment"
STORAGE_CLASS: Final = "storage.k8s.io/StorageClass"
WILD_CARD: Final = "*"


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

    UPDATE = (
        UPDATE_NODE_ALLOCATABLE
        | UPDATE_NODE_LABEL
        | UPDATE_NODE_TAINT
        | UPDATE_NODE_CONDITION
        | UPDATE_NODE_ANNOTATION
        | UPDATE_POD_LABEL
        | UPDATE_POD_SCALE_DOWN
        | UPDATE_POD_OTHER
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
        return self.is_wild_card or (self.resource in (WILD_CARD, event.resource) and bool(self.action & event.action))


# Every change of a kind that the scheduler watches of itself (UnrollWildCardResource). v1.31.1's kinds of dynamic
# resource allocation are left out: as that is off by default, their events never come.
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

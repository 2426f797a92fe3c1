"""NodeVolumeLimits: a node can attach only so many volumes of a driver."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.nodes.volume_support import VolumeSupport, limit_key
from extender_service.cluster.view.node_view import NodeView
from extender_service.cluster.volumes.attachments import Attachment, Fault, attachments
from extender_service.config.rules import Rules
from extender_service.framework.cluster_event import (
    CSI_NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    VOLUME_ATTACHMENT,
    ActionType,
    ClusterEvent,
    QueueingHint,
)
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter, PreFilter, Reach
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.status import SKIP, Code, Rejections, Status, unresolvable, unschedulable
from extender_service.kube.parsing.csi_migration import (
    DRIVERS,
    FOLLOWED,
    PLUGINS,
    TranslationError,
    in_tree_plugin,
    translate,
)
from extender_service.kube.types.core import Object, Pod, Volume
from extender_service.kube.types.storage import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from extender_service.plugins.shared.changed_pods import is_of_pod, pods_on_nodes, took_room
from extender_service.plugins.shared.event_objects import only_new, only_old
from extender_service.plugins.shared.pod_claims import is_claim_of

TOO_MANY = unschedulable("node(s) exceed max volume count")

_NO_LIMIT = np.iinfo(np.int64).max
Mask = NDArray[np.bool_]


class NodeVolumeLimits(PreFilter, Filter):
    """Rejects nodes that cannot attach all of the pod's volumes beside those that are attached there.

    The limits are those of the CSINode, or in v1.31, of the node's own allocatable resources. An in-tree volume counts
    where its plugin is migrated to CSI; a volume that two pods of a node share counts once.
    """

    name: ClassVar[str] = "NodeVolumeLimits"
    treats_alike: ClassVar[bool] = True
    reach: ClassVar[Reach] = Reach.NONE
    reads: ClassVar[frozenset[type[Object]]] = frozenset(
        {PersistentVolume, PersistentVolumeClaim, StorageClass, CSINode}
    )
    retry_on: Sequence[ClusterEvent] = (
        ClusterEvent(CSI_NODE, ActionType.ADD),
        ClusterEvent(POD, ActionType.DELETE),
        ClusterEvent(PERSISTENT_VOLUME_CLAIM, ActionType.ADD),
    )

    @classmethod
    def reads_in(cls, rules: Rules) -> frozenset[type[Object]]:
        """Return the kinds that the plugin reads.

        In later releases, VolumeAttachments count, and CSIDrivers say whether they must be installed.
        """
        read = set(cls.reads)
        if rules.attachments_count:
            read.add(VolumeAttachment)
        if rules.missing_drivers_reject:
            read.add(CSIDriver)
        return frozenset(read)

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        # Those of the class are v1.31.1's.
        self._compares = handle.rules.hints_compare
        if self._compares:
            deleted = ClusterEvent(pods_on_nodes(handle.rules), ActionType.DELETE)
            self.retry_on = tuple(deleted if event.resource == POD else event for event in self.retry_on)
        if handle.rules.attachments_count:
            self.retry_on = (*self.retry_on, ClusterEvent(VOLUME_ATTACHMENT, ActionType.DELETE))
        if handle.rules.raised_limits_wake:
            self.retry_on = (*self.retry_on, ClusterEvent(CSI_NODE, ActionType.UPDATE))
        of_drivers = handle.rules.volume_limits_of_drivers
        self._limit = VolumeSupport.driver_limit if of_drivers else VolumeSupport.limit
        self._limits = _driver_limits if of_drivers else _limits
        self._portworx_migrated = handle.rules.portworx_migrated
        self._missing_drivers_reject = handle.rules.missing_drivers_reject
        self._every_driver = not handle.rules.missing_driver_rejection_is_opt_in

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | None:
        """Skip Filter for pods without volumes that could count."""
        return None if state.volumes.attachable else SKIP

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Reject nodes with too many volumes; a volume that cannot be read is an error where it would count."""
        wanted = list(attachments(self.handle.cluster.storage, state.volumes, set()))
        statuses: list[Status | None] = [None, TOO_MANY]
        numbers = np.zeros(len(nodes), np.intp)
        undecided = np.ones(len(nodes), np.bool_)
        for fault in (item for item in wanted if isinstance(item, Fault)):
            failed = undecided & self._counts(nodes, fault.plugin)
            numbers[failed] = len(statuses)
            statuses.append(unresolvable(fault.text) if fault.is_missing else Status(Code.ERROR, (fault.text,)))
            undecided &= ~failed
        volumes = [item for item in wanted if isinstance(item, Attachment)]
        if self._missing_drivers_reject:
            self._reject_without_drivers(nodes, volumes, undecided, numbers, statuses)
        undecided &= nodes.kept_by_facts(_have_limits, self._limits)
        if all(volume.plugin for volume in volumes):
            undecided &= self._any_counts(nodes, volumes)
        if undecided.any():
            self._find_faults(nodes, undecided, numbers, statuses)
            for key in {limit_key(volume.driver): None for volume in volumes}:
                numbers[(undecided & self._exceeds(nodes, key, volumes)).nonzero()[0]] = 1
        return Rejections.per_value(numbers, statuses) if numbers.any() else None

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: object, new: object) -> QueueingHint:
        """Queue for a pod with a volume that could count and that was deleted from a node, any new CSINode or claim.

        In later releases, also for a CSINode that raises a limit, and for an attachment that ends; and of claims, only
        for those of the pod.
        """
        if event.resource == CSI_NODE and old is not None:
            return QueueingHint.queue_if(_raises_a_limit(only_old(CSINode, old, new), only_new(CSINode, old, new)))
        if event.resource == PERSISTENT_VOLUME_CLAIM and self._compares:
            return QueueingHint.queue_if(is_claim_of(pod, only_new(PersistentVolumeClaim, old, new)))
        if event.resource == VOLUME_ATTACHMENT and self.handle.rules.attachments_by_driver:
            return QueueingHint.queue_if(_may_use(pod, only_old(VolumeAttachment, old, new).spec.attacher))
        if not is_of_pod(event):
            return QueueingHint.QUEUE
        deleted = only_old(Pod, old, new)
        helps = took_room(deleted, self.handle.rules) and any(_may_count(volume) for volume in deleted.spec.volumes)
        return QueueingHint.queue_if(helps)

    def _reject_without_drivers(
        self,
        nodes: NodeView,
        volumes: Sequence[Attachment],
        undecided: Mask,
        numbers: NDArray[np.intp],
        statuses: list[Status | None],
    ) -> None:
        """Reject nodes that lack a driver which insists on being installed, and drop them from `undecided`.

        Where several are missing, the reference names any one of them; here it is the first of the pod's volumes.
        """
        for volume in dict.fromkeys(volumes):
            driver = self.handle.cluster.storage.driver(volume.driver)
            if driver is None or not (self._every_driver or driver.spec.prevent_pod_scheduling_if_missing):
                continue
            name = volume.driver
            lacking = undecided & self._counts(nodes, volume.plugin) & ~_by_support(nodes, partial(_has_driver, name))
            if lacking.any():
                numbers[lacking] = len(statuses)
                statuses.append(unschedulable(f"{name} CSI driver is not installed on the node"))
                undecided &= ~lacking

    def _find_faults(
        self, nodes: NodeView, undecided: Mask, numbers: NDArray[np.intp], statuses: list[Status | None]
    ) -> None:
        """Set an error for nodes where a pod has a volume that cannot be read, and drop them from `undecided`."""
        for slot, faults in sorted(self.handle.cluster.held_volumes.faults.items()):
            here = nodes.pods_among(np.array([slot])) > 0
            for fault in faults:
                failed = undecided & here & self._counts(nodes, fault.plugin)
                if failed.any():
                    numbers[failed] = len(statuses)
                    statuses.append(Status(Code.ERROR, (fault.text,)))
                    undecided &= ~failed

    def _exceeds(self, nodes: NodeView, key: str, volumes: Sequence[Attachment]) -> Mask:
        """Return the nodes where those of the volumes that are new there exceed the limit with this key."""
        volumes = [volume for volume in volumes if limit_key(volume.driver) == key]
        in_tree = PLUGINS.get(volumes[0].driver)
        exceeds = self._exceeds_with(nodes, key, [volume for volume in volumes if not volume.plugin], migrated=False)
        if in_tree is None:
            return exceeds
        return np.where(self._counts(nodes, in_tree), self._exceeds_with(nodes, key, volumes, migrated=True), exceeds)

    def _exceeds_with(self, nodes: NodeView, key: str, volumes: Sequence[Attachment], *, migrated: bool) -> Mask:
        """Return the same as `_exceeds`, as if in-tree volumes counted on all nodes (`migrated`) or on none."""
        held = self.handle.cluster.held_volumes
        new: int | NDArray[np.int64] = 0
        for driver, handle in {(volume.driver, volume.handle): None for volume in volumes}:
            holders = held.holders(driver, handle, migrated=migrated)
            new = new + ((nodes.pods_among(holders) == 0).astype(np.int64) if len(holders) else 1)
        attached = nodes.by_row(held.attached(key, migrated=migrated))
        if nodes.is_changed:
            attached = attached + self._change(nodes, key, migrated=migrated)
        return (new > 0) & (attached + new > nodes.kept_by_facts(_limits_on, key, self._limit))

    def _counts(self, nodes: NodeView, plugin: str) -> Mask:
        """Return the nodes where the volumes of an in-tree plugin count; all nodes if `plugin` is empty."""
        if not plugin:
            return np.ones(len(nodes), np.bool_)
        return _by_support(nodes, lambda support: support.counts(plugin, portworx_migrated=self._portworx_migrated))

    def _any_counts(self, nodes: NodeView, volumes: Sequence[Attachment]) -> Mask:
        counts = np.zeros(len(nodes), np.bool_)
        for plugin in {volume.plugin for volume in volumes}:
            counts |= self._counts(nodes, plugin)
        return counts

    def _held_alone(self, key: str, slots: NDArray[np.intp], *, migrated: bool) -> NDArray[np.int64]:
        """Return how many volumes the pods in these slots hold that are on a node, and share none."""
        held, pods = self.handle.cluster.held_volumes, self.handle.cluster.pods
        is_alone = ~held.share(slots) & (pods.row[slots] >= 0)
        return np.where(is_alone, held.volume_counts(slots, key, migrated=migrated), 0)

    def _change(self, nodes: NodeView, key: str, *, migrated: bool) -> NDArray[np.int64]:
        """Return how many more (or fewer) volumes are attached in each node's own world."""
        held, pods, rows = self.handle.cluster.held_volumes, self.handle.cluster.pods, nodes.rows
        change = nodes.added((self.name, key, migrated), partial(self._held_alone, key, migrated=migrated))
        changes = nodes.changes
        # Of a pod that has no node yet, it is not known what stays attached.
        shared = () if changes is None else np.flatnonzero(held.share(changes.slots) | (pods.row[changes.slots] < 0))
        if changes is None or not len(shared):
            return change
        change = change.copy()
        # A volume that pods share stays attached until the last of them is gone, unless it stays without them.
        moved: Counter[tuple[int, str, str]] = Counter()
        for position, slot, sign in zip(
            changes.positions[shared].tolist(),
            changes.slots[shared].tolist(),
            changes.signs[shared].tolist(),
            strict=True,
        ):
            for driver, handle in held.held_by(slot, key, migrated=migrated):
                moved[position, driver, handle] += sign
        for (position, driver, handle), more in moved.items():
            if held.stays_attached(int(rows[position]), driver, handle):
                continue
            holders = held.holders(driver, handle, migrated=migrated)
            before = np.count_nonzero(pods.row[holders] == rows[position])
            change[position] += int(before + more > 0) - int(before > 0)
        return change


def _raises_a_limit(old: CSINode, new: CSINode) -> bool:
    """Return whether a CSINode has a higher limit than before; no limit is taken for 0, as in the reference."""
    before = _counts_of(old)
    return any(count > before.get(driver, 0) for driver, count in _counts_of(new).items())


def _counts_of(node: CSINode) -> dict[str, int]:
    return {
        driver.name: 0 if driver.allocatable is None else driver.allocatable.count or 0 for driver in node.spec.drivers
    }


def _may_use(pod: Pod, driver: str) -> bool:
    """Whether a pod has a claim, or a volume that a driver has taken over; the first of either decides.

    Raises PluginError for a volume that cannot be translated.
    """
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            return True
        plugin = in_tree_plugin(volume)
        try:
            taken_over_by = translate(volume, plugin).driver if plugin in FOLLOWED else DRIVERS.get(plugin, "")
        except TranslationError as error:
            raise PluginError(str(error)) from error
        if plugin and taken_over_by == driver:
            return True
    return False


def _may_count(volume: Volume) -> bool:
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None or bool(in_tree_plugin(volume))


def _has_driver(name: str, support: VolumeSupport) -> bool:
    return name in support.drivers


def _limits(support: VolumeSupport) -> tuple[tuple[str, int], ...]:
    return support.limits


def _driver_limits(support: VolumeSupport) -> tuple[tuple[str, int], ...]:
    return support.driver_limits


def _have_limits(nodes: NodeView, limits: Callable[[VolumeSupport], object]) -> Mask:
    """Return the nodes on which anything limits the number of volumes."""
    return _by_support(nodes, lambda support: bool(limits(support)))


def _limits_on(nodes: NodeView, key: str, limit_of: Callable[[VolumeSupport, str], int | None]) -> NDArray[np.int64]:
    """Return how many volumes of a `limit_key` can be attached to each node."""
    limits = [None if support is None else limit_of(support, key) for support in nodes.volume_supports]
    by_support = np.array([_NO_LIMIT if limit is None else limit for limit in limits], np.int64)
    return by_support.take(nodes.volume_support)


def _by_support(nodes: NodeView, holds: Callable[[VolumeSupport], bool]) -> Mask:
    answers = np.array([support is not None and holds(support) for support in nodes.volume_supports], np.bool_)
    found: Mask = answers[nodes.volume_support]
    return found

"""VolumeBinding: a pod goes where its volumes can be reached, bound or made."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.view.node_view import NodeView
from extender_service.cluster.volumes.storage_table import STORAGE
from extender_service.framework.cluster_event import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    ActionType,
    ClusterEvent,
    QueueingHint,
)
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import (
    MAX_NODE_SCORE,
    Filter,
    PreBind,
    PreFilter,
    PreScore,
    Reach,
    Reserve,
    Score,
)
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.status import SKIP, Rejections, Status, unresolvable
from extender_service.kube.types.core import Object, Pod
from extender_service.kube.types.keys import Key, key_of
from extender_service.kube.types.storage import (
    SELECTED_NODE_ANNOTATION,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeAttachment,
)
from extender_service.plugins.shared.changed_nodes import node_changes
from extender_service.plugins.shared.shape import MAX_SHAPE_SCORE, broken_linear
from extender_service.plugins.volume_binding.args import VolumeBindingArgs
from extender_service.plugins.volume_binding.claims import (
    PodClaims,
    UnusableClaimError,
    claims_of,
    eligible_nodes,
    sort_out,
)
from extender_service.plugins.volume_binding.hints import (
    helps_after_capacity_change,
    helps_after_claim_change,
    helps_after_class_change,
    helps_after_csi_node_change,
    helps_after_driver_change,
)
from extender_service.plugins.volume_binding.provisioning import can_make, has_space, storage_class_of
from extender_service.plugins.volume_binding.reach import reach_volume
from extender_service.plugins.volume_binding.scoring import capacity_score, utilization_score
from extender_service.plugins.volume_binding.static_binding import UNBOUND, StaticBindings, bind_statically
from extender_service.plugins.volume_binding.verdicts import (
    CONFLICT,
    NO_SPACE,
    NO_VOLUME,
    NOTHING_TO_BIND,
    REASONS,
    REASONS_NAMING_AFFINITY,
    VolumeVerdicts,
)
from extender_service.plugins.volume_binding.volume_binder import BoundVolumes, VolumePlan

UNBOUND_IMMEDIATE = unresolvable("pod has unbound immediate PersistentVolumeClaims")

_CLAIMS = "VolumeBinding"
# What kube-scheduler says where PreFilter did not run.
_NO_STATE = "not found"
_BINDINGS = "VolumeBinding/bindings"
_VOLUMES = "VolumeBinding/volumes"

_HELPS = {
    STORAGE_CLASS: helps_after_class_change,
    PERSISTENT_VOLUME_CLAIM: helps_after_claim_change,
    CSI_NODE: helps_after_csi_node_change,
    CSI_STORAGE_CAPACITY: helps_after_capacity_change,
}

Mask = NDArray[np.bool_]


class FoundBindings(msgspec.Struct):
    """What Filter found that a pod's claims could be bound to, on the nodes that pass it."""

    nodes: NodeView
    bindings: StaticBindings
    passing: Mask

    @classmethod
    def on(cls, nodes: NodeView, bindings: StaticBindings, passing: Mask) -> "FoundBindings":
        """Keep what was found on nodes, as far as they pass."""
        distinct = {id(numbers): np.where(passing, numbers, UNBOUND) for numbers in bindings.chosen}
        chosen = [distinct[id(numbers)] for numbers in bindings.chosen]
        return cls(nodes.to_keep(), StaticBindings(bindings.claims, bindings.volumes, chosen), passing)

    def at(self, nodes: NodeView) -> StaticBindings:
        """Return what was found on these nodes; nothing on nodes that Filter did not see."""
        seen, rows = self.nodes.rows, nodes.rows
        position_of = np.full(max(seen.max(initial=0), rows.max(initial=0)) + 1, -1, np.intp)
        position_of[seen] = np.arange(len(seen))
        distinct = {id(numbers): np.append(numbers, UNBOUND)[position_of[rows]] for numbers in self.bindings.chosen}
        chosen = [distinct[id(numbers)] for numbers in self.bindings.chosen]
        return StaticBindings(self.bindings.claims, self.bindings.volumes, chosen)

    def on_node(self, node_name: str, claims: Sequence[PersistentVolumeClaim]) -> VolumePlan | None:
        """Return what is to be done about these claims on a node; None if the node does not pass.

        A claim that the pod names twice is bound, or has a volume made, once: it cannot have two. (kube-scheduler also
        writes the second volume, which the PV controller releases again.)
        """
        position = self.nodes.position_of(node_name)
        if position < 0 or not self.passing[position]:
            return None
        found = self.bindings
        bound: dict[Key, tuple[PersistentVolume, PersistentVolumeClaim]] = {}
        for claim, chosen in zip(found.claims, found.chosen, strict=True):
            if chosen[position] != UNBOUND:
                bound.setdefault(key_of(claim), (found.volumes[chosen[position]], claim))
        made = {key: claim for claim in claims if (key := key_of(claim)) not in bound}
        return VolumePlan(list(bound.values()), list(made.values()))


class VolumeBinding(PreFilter, Filter, PreScore, Score, Reserve, PreBind):
    """Rejects nodes that cannot reach the pod's bound volumes, and where its other claims can neither be bound to a
    volume that exists nor have one made. With a `shape`, scores by how full the volumes to bind would be. Binds the
    claims, or has volumes made for them, before the pod is bound."""

    name: ClassVar[str] = "VolumeBinding"
    treats_alike: ClassVar[bool] = True
    reach: ClassVar[Reach] = Reach.NONE
    args_type: ClassVar[type | None] = VolumeBindingArgs
    reads: ClassVar[frozenset[type[Object]]] = frozenset({*STORAGE} - {VolumeAttachment})
    retry_on: Sequence[ClusterEvent] = (
        ClusterEvent(STORAGE_CLASS, ActionType.ADD | ActionType.UPDATE),
        ClusterEvent(PERSISTENT_VOLUME_CLAIM, ActionType.ADD | ActionType.UPDATE),
        ClusterEvent(PERSISTENT_VOLUME, ActionType.ADD | ActionType.UPDATE),
        ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT),
        ClusterEvent(CSI_NODE, ActionType.ADD | ActionType.UPDATE),
        ClusterEvent(CSI_DRIVER, ActionType.ADD | ActionType.UPDATE),
        ClusterEvent(CSI_STORAGE_CAPACITY, ActionType.ADD | ActionType.UPDATE),
    )

    def __init__(self, args: VolumeBindingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        points = [(point.utilization, point.score * (MAX_NODE_SCORE // MAX_SHAPE_SCORE)) for point in args.shape]
        self._by_percent = broken_linear(points) if points else None
        self._helps: Mapping[str, Callable[[Pod, object, object], bool]] = _HELPS
        if handle.rules.fewer_events_wake:
            narrower = {
                NODE: node_changes(handle.rules, ActionType.UPDATE_NODE_LABEL),
                CSI_DRIVER: ClusterEvent(CSI_DRIVER, ActionType.UPDATE),
            }
            self.retry_on = tuple(narrower.get(event.resource, event) for event in self.retry_on)
            self._helps = {**_HELPS, CSI_DRIVER: helps_after_driver_change}
        self._scores_every_pod = handle.rules.scores_storage_capacity
        self._lists_no_nodes = handle.rules.local_volumes_by_affinity
        self._reasons = REASONS_NAMING_AFFINITY if handle.rules.volume_affinity_named else REASONS

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: object, new: object) -> QueueingHint:
        """Queue for what could bind or provide the pod's volumes; for any volume, node or driver."""
        helps = self._helps.get(event.resource)
        return QueueingHint.queue_if(helps is None or helps(pod, old, new))

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | Collection[str] | None:
        """Sort out the pod's claims; those that need not wait for it must be bound.

        In v1.31, local volumes name their nodes.
        """
        storage = self.handle.cluster.storage
        try:
            claims = claims_of(state.volumes, storage)
        except UnusableClaimError as fault:
            return _refused(state, unresolvable(str(fault)))
        if not claims:
            state[_CLAIMS] = PodClaims([], [], [])
            return SKIP
        sorted_out = sort_out(claims, storage)
        if sorted_out.immediate:
            return _refused(state, UNBOUND_IMMEDIATE)
        state[_CLAIMS] = sorted_out
        return None if self._lists_no_nodes else eligible_nodes(sorted_out.bound, storage)

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Check the bound claims, then the others; a node can fail by both."""
        if _CLAIMS not in state:
            raise PluginError(_NO_STATE)
        claims: PodClaims = state[_CLAIMS]
        verdicts = VolumeVerdicts(len(nodes), self._reasons)
        self._check_bound(verdicts, nodes, claims.bound)
        bindings = self._bind_or_make(verdicts, nodes, claims.waiting) if claims.waiting else None
        if bindings is not None and _BINDINGS not in state:
            # Filter sees the same nodes once more, without nominated pods: their volumes are the same.
            state[_BINDINGS] = FoundBindings.on(nodes, bindings, verdicts.passing)
        return verdicts.rejections()

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> Status | None:
        """Skip pods that would be bound to no volume that exists, and do without scores if none are configured.

        Later releases score every pod.
        """
        if self._by_percent is None:
            return SKIP
        if _CLAIMS not in state:
            raise PluginError(_NO_STATE)
        return None if self._scores_every_pod or _has_bindings(state) else SKIP

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        """Score by the share of the volumes that the claims ask for; where volumes are made, of what there is."""
        scores = np.zeros(len(nodes), np.int64)
        if self._by_percent is None:
            return scores
        if _CLAIMS not in state:
            raise PluginError(_NO_STATE)
        if _BINDINGS not in state:
            return scores
        found: FoundBindings = state[_BINDINGS]
        if self._scores_every_pod:
            # The order matters: the last claim of a class decides what there is.
            claims = [*_being_made(state[_CLAIMS].waiting), *found.bindings.claims]
            scores = capacity_score(nodes, self.handle.cluster.storage, claims, self._by_percent)
        if found.bindings.volumes:
            bindings = found.at(nodes)
            is_bound = np.any([chosen != UNBOUND for chosen in bindings.chosen], axis=0)
            scores = np.where(is_bound, utilization_score(bindings, self._by_percent), scores)
        return scores

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Assume that the claims are bound to what Filter found, or that volumes are being made for them.

        Refuse a pod that PreFilter refused: its node was chosen elsewhere.
        """
        if _CLAIMS not in state:
            raise PluginError(_NO_STATE)
        claims: PodClaims = state[_CLAIMS]
        if not claims.waiting:
            return claims.refusal
        found: VolumePlan | None = None
        if _BINDINGS in state:
            found = state[_BINDINGS].on_node(node_name, claims.waiting)
        if found is None:
            raise PluginError(f'no pod volumes found for node "{node_name}"')
        volumes = BoundVolumes(self.handle, pod, node_name)
        volumes.assume(found)
        state[_VOLUMES] = volumes
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undo what Reserve assumed."""
        if _VOLUMES in state:
            state[_VOLUMES].revert()

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Skip PreBind for a pod whose claims are all bound."""
        if _VOLUMES in state:
            return None
        if _CLAIMS not in state:
            raise PluginError(_NO_STATE)
        return SKIP

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Write what Reserve assumed, and wait until the claims are bound."""
        if _VOLUMES in state:
            await state[_VOLUMES].bind(self.args.bind_timeout_seconds)
        elif _CLAIMS not in state:
            raise PluginError(_NO_STATE)
        return None

    def _check_bound(self, verdicts: VolumeVerdicts, nodes: NodeView, claims: Sequence[PersistentVolumeClaim]) -> None:
        """Reject nodes that cannot reach a volume; the first one settles it (checkBoundClaims in binder.go)."""
        unsettled = np.ones(len(nodes), np.bool_)
        for claim in _each_once(claims):
            volume = self.handle.cluster.storage.volume(claim.spec.volume_name)
            if volume is None:
                verdicts.add(NO_VOLUME, unsettled)
                return
            reached = reach_volume(nodes, volume, verdicts, unsettled)
            verdicts.add(CONFLICT, unsettled & ~reached)
            unsettled &= reached

    def _bind_or_make(
        self, verdicts: VolumeVerdicts, nodes: NodeView, claims: Sequence[PersistentVolumeClaim]
    ) -> StaticBindings | None:
        """Reject nodes where a claim can neither be bound to a volume nor have one made; the first claim settles it
        (FindPodVolumes in binder.go)."""
        unsettled = ~verdicts.failed
        being_made = _each_once(_being_made(claims))
        for claim in being_made:
            elsewhere = unsettled & ~nodes.is_named([claim.metadata.annotations[SELECTED_NODE_ANNOTATION]])
            verdicts.add(NOTHING_TO_BIND, elsewhere)
            unsettled &= ~elsewhere
        to_bind = [claim for claim in claims if SELECTED_NODE_ANNOTATION not in claim.metadata.annotations]
        try:
            bindings = bind_statically(nodes, to_bind, self.handle.cluster.storage.free_volumes, self.handle.rules)
        except PluginError as error:
            verdicts.fail(str(error), unsettled)
            return None
        for claim in being_made:
            unsettled &= ~self._make(verdicts, nodes, claim, unsettled)
        # A claim may be given thousands of times, and finds nothing from some time on.
        distinct = {
            (key_of(claim), id(chosen)): (claim, chosen)
            for claim, chosen in zip(bindings.claims, bindings.chosen, strict=True)
        }
        for claim, chosen in distinct.values():
            unsettled &= ~self._make(verdicts, nodes, claim, unsettled & (chosen == UNBOUND))
        return bindings

    def _make(self, verdicts: VolumeVerdicts, nodes: NodeView, claim: PersistentVolumeClaim, needed: Mask) -> Mask:
        """Reject nodes where a volume that is needed cannot be made; returns which they are."""
        if not needed.any():
            return needed
        storage = self.handle.cluster.storage
        try:
            storage_class = storage_class_of(storage, claim)
        except PluginError as error:
            verdicts.fail(str(error), needed)
            return needed
        makes = can_make(nodes, storage_class)
        verdicts.add(NOTHING_TO_BIND, needed & ~makes)
        lacking = needed & makes & ~has_space(nodes, storage, claim, storage_class)
        verdicts.add(NO_SPACE, lacking)
        return (needed & ~makes) | lacking


def _refused(state: CycleState, refusal: Status) -> Status:
    """Remember a refusal, and return it."""
    state[_CLAIMS] = PodClaims([], [], [], refusal)
    return refusal


def _has_bindings(state: CycleState) -> bool:
    """Return whether Filter found existing volumes to bind claims to."""
    return _BINDINGS in state and bool(state[_BINDINGS].bindings.volumes)


def _each_once(claims: Iterable[PersistentVolumeClaim]) -> Collection[PersistentVolumeClaim]:
    """Return claims without those that a pod gives again: it may do so thousands of times."""
    return {key_of(claim): claim for claim in claims}.values()


def _being_made(claims: Sequence[PersistentVolumeClaim]) -> list[PersistentVolumeClaim]:
    """Return the claims for which volumes are being made already, each on a node that was chosen before."""
    return [claim for claim in claims if SELECTED_NODE_ANNOTATION in claim.metadata.annotations]

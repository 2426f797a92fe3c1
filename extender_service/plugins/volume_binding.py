"""VolumeBinding: a pod goes where its volumes can be reached, bound or made."""

from collections.abc import Collection, Sequence
from typing import ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.events import ClusterEvent
from extender_service.cluster.free_volumes import reach_of
from extender_service.cluster.storage import STORAGE
from extender_service.cluster.view import NodeView
from extender_service.config.plugin_args import VolumeBindingArgs
from extender_service.framework.interface import (
    MAX_NODE_SCORE,
    CycleState,
    Filter,
    Handle,
    PluginError,
    PreFilter,
    PreScore,
    Score,
)
from extender_service.framework.status import SKIP, Rejections, Status, unresolvable
from extender_service.kube.csi_migration import (
    FOLLOWED,
    TranslationError,
    in_tree_plugin,
    translate_volume,
    translated_affinity,
)
from extender_service.kube.objects import Object, Pod
from extender_service.kube.selectors import parse_node_selector
from extender_service.kube.storage import PersistentVolume, PersistentVolumeClaim
from extender_service.plugins.node_resources_fit import MAX_SHAPE_SCORE, broken_linear
from extender_service.plugins.pod_claims import PodClaims, UnusableClaimError, claims_of, eligible_nodes, sort_out
from extender_service.plugins.static_volumes import UNBOUND, StaticBindings, bind_statically
from extender_service.plugins.volume_provisioning import can_make, has_space, storage_class_of
from extender_service.plugins.volume_reach import can_reach
from extender_service.plugins.volume_scoring import utilization_score
from extender_service.plugins.volume_verdicts import (
    CONFLICT,
    NO_SPACE,
    NO_VOLUME,
    NOTHING_TO_BIND,
    VolumeVerdicts,
)

UNBOUND_IMMEDIATE = unresolvable("pod has unbound immediate PersistentVolumeClaims")

_CLAIMS = "VolumeBinding"
_BINDINGS = "VolumeBinding/bindings"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"

Mask = NDArray[np.bool_]


class FoundBindings(msgspec.Struct):
    """What Filter found that a pod's claims could be bound to, by the rows of the nodes."""

    rows: NDArray[np.intp]
    bindings: StaticBindings

    @classmethod
    def on(cls, nodes: NodeView, bindings: StaticBindings, passing: Mask) -> "FoundBindings":
        """Keep what was found on nodes, as far as they pass."""
        chosen = [np.where(passing, numbers, UNBOUND) for numbers in bindings.chosen]
        return cls(nodes.rows, StaticBindings(bindings.claims, bindings.volumes, chosen))

    def at(self, nodes: NodeView) -> StaticBindings:
        """Return what was found on these nodes; nothing on nodes that Filter did not see."""
        rows = nodes.rows
        position_of = np.full(max(self.rows.max(initial=0), rows.max(initial=0)) + 1, -1, np.intp)
        position_of[self.rows] = np.arange(len(self.rows))
        chosen = [np.append(numbers, UNBOUND)[position_of[rows]] for numbers in self.bindings.chosen]
        return StaticBindings(self.bindings.claims, self.bindings.volumes, chosen)


class VolumeBinding(PreFilter, Filter, PreScore, Score):
    """Rejects nodes that cannot reach the pod's bound volumes, and where its other claims can neither be bound to a
    volume that exists nor have one made. With a `shape`, scores by how full the volumes to bind would be."""

    name: ClassVar[str] = "VolumeBinding"
    args_type: ClassVar[type | None] = VolumeBindingArgs
    reads: ClassVar[frozenset[type[Object]]] = frozenset({*STORAGE})
    retry_on: ClassVar[ClusterEvent] = ClusterEvent.NODE | ClusterEvent.STORAGE

    def __init__(self, args: VolumeBindingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        points = [(point.utilization, point.score * (MAX_NODE_SCORE // MAX_SHAPE_SCORE)) for point in args.shape]
        self._by_percent = broken_linear(points) if points else None

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | Collection[str] | None:
        """Sort out the pod's claims; those that need not wait for it must be bound. Local volumes name their nodes."""
        storage = self.handle.cluster.storage
        try:
            claims = claims_of(pod, storage)
        except UnusableClaimError as fault:
            return unresolvable(str(fault))
        if not claims:
            return SKIP
        sorted_out = sort_out(claims, storage)
        if sorted_out.immediate:
            return UNBOUND_IMMEDIATE
        state[_CLAIMS] = sorted_out
        return eligible_nodes(sorted_out.bound, storage)

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Check the bound claims, then the others; a node can fail by both."""
        if _CLAIMS not in state:
            raise PluginError("not found")
        claims: PodClaims = state[_CLAIMS]
        verdicts = VolumeVerdicts(len(nodes))
        self._check_bound(verdicts, nodes, claims.bound)
        bindings = self._bind_or_make(verdicts, nodes, claims.waiting)
        if bindings is not None:
            state[_BINDINGS] = FoundBindings.on(nodes, bindings, verdicts.passing)
        return verdicts.rejections()

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> Status | None:
        """Skip pods that would be bound to no volume that exists, and do without scores if none are configured."""
        return None if self._by_percent is not None and _BINDINGS in state else SKIP

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        """Score by the share of the volumes that the claims ask for."""
        if self._by_percent is None or _BINDINGS not in state:
            return np.zeros(len(nodes), np.int64)
        return utilization_score(state[_BINDINGS].at(nodes), self._by_percent)

    def _check_bound(self, verdicts: VolumeVerdicts, nodes: NodeView, claims: Sequence[PersistentVolumeClaim]) -> None:
        """Reject nodes that cannot reach a volume; the first one settles it (checkBoundClaims in binder.go)."""
        unsettled = np.ones(len(nodes), np.bool_)
        for claim in claims:
            volume = self.handle.cluster.storage.volume(claim.spec.volume_name)
            if volume is None:
                verdicts.add(NO_VOLUME, unsettled)
                return
            reached = _reached(nodes, volume, verdicts, unsettled)
            verdicts.add(CONFLICT, unsettled & ~reached)
            unsettled &= reached

    def _bind_or_make(
        self, verdicts: VolumeVerdicts, nodes: NodeView, claims: Sequence[PersistentVolumeClaim]
    ) -> StaticBindings | None:
        """Reject nodes where a claim can neither be bound to a volume nor have one made; the first claim settles it
        (FindPodVolumes in binder.go)."""
        unsettled = ~verdicts.failed
        being_made = [claim for claim in claims if _SELECTED_NODE in claim.metadata.annotations]
        for claim in being_made:
            elsewhere = unsettled & ~nodes.is_named([claim.metadata.annotations[_SELECTED_NODE]])
            verdicts.add(NOTHING_TO_BIND, elsewhere)
            unsettled &= ~elsewhere
        to_bind = [claim for claim in claims if _SELECTED_NODE not in claim.metadata.annotations]
        try:
            bindings = bind_statically(nodes, to_bind, self.handle.cluster.storage.free_volumes)
        except PluginError as error:
            verdicts.fail(str(error), unsettled)
            return None
        for claim in being_made:
            unsettled &= ~self._make(verdicts, nodes, claim, unsettled)
        for claim, chosen in zip(bindings.claims, bindings.chosen, strict=True):
            unsettled &= ~self._make(verdicts, nodes, claim, unsettled & (chosen == UNBOUND))
        return bindings if bindings.volumes else None

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


def _reached(nodes: NodeView, volume: PersistentVolume, verdicts: VolumeVerdicts, asked: Mask) -> Mask:
    """Tell for each node whether it can reach a volume, where its plugin is migrated through the CSI driver."""
    reached = can_reach(nodes, reach_of(volume))
    plugin = in_tree_plugin(volume.spec)
    if plugin not in FOLLOWED:
        return reached
    supports = [support is not None and plugin in support.migrated for support in nodes.volume_supports]
    migrated = np.array(supports, np.bool_)[nodes.volume_support]
    if not migrated.any():
        return reached
    try:
        translate_volume(volume, plugin)
    except TranslationError as error:
        verdicts.fail(f"could not translate pv: {error}", asked & migrated)
        return reached | migrated
    affinity = translated_affinity(volume, plugin)
    through_driver = can_reach(nodes, None if affinity is None else parse_node_selector(affinity))
    return np.where(migrated, through_driver, reached)

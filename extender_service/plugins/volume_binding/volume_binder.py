"""Binds a pod's claims on the node that was chosen: assumes it, writes it, and waits until it is done
(AssumePodVolumes, BindPodVolumes and checkBindings in plugins/volumebinding/binder.go)."""

import asyncio
from collections.abc import Iterable

import msgspec
import numpy as np
from msgspec import structs

from extender_service.cluster.state.changes import Change, ObjectChange
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.volumes.storage_table import A, Assumable, OutOfSyncError
from extender_service.config.rules import Rules
from extender_service.framework.handle import Handle
from extender_service.framework.plugin_errors import PluginError
from extender_service.kube.types.core import ObjectMeta, Pod
from extender_service.kube.types.keys import key_of
from extender_service.kube.types.pods import pod_uid
from extender_service.kube.types.storage import (
    BOUND_BY_CONTROLLER_ANNOTATION,
    SELECTED_NODE_ANNOTATION,
    ClaimReference,
    PersistentVolume,
    PersistentVolumeClaim,
)
from extender_service.kube.types.versions import version_number
from extender_service.plugins.volume_binding.reach import reach_volume
from extender_service.plugins.volume_binding.verdicts import VolumeVerdicts

# How often kube-scheduler looks. Here, most of what ends the wait ends it at once: see `_awaited`.
_POLL_SECONDS = 1.0

_PLURALS = {PersistentVolume: "persistentvolumes", PersistentVolumeClaim: "persistentvolumeclaims"}


class VolumePlan(msgspec.Struct):
    """What is done on a node about a pod's claims: some are bound to volumes, for others volumes are made."""

    bindings: list[tuple[PersistentVolume, PersistentVolumeClaim]]
    provisions: list[PersistentVolumeClaim]


class BoundVolumes:
    """The volumes of a pod on its way to a node. `assume` comes first, `revert` may come any time after it."""

    def __init__(self, handle: Handle, pod: Pod, node_name: str) -> None:
        self._cluster = handle.cluster
        self._api = handle.volumes
        self._rules = handle.rules
        self._pod = pod
        self._node_name = node_name
        self._volumes = VolumePlan([], [])
        self._assumed: list[Assumable] = []
        # kube-scheduler may ask about a pod before the watch shows it. Later, a pod that was known and is not is gone.
        self._was_known = self._is_known()

    def assume(self, found: VolumePlan) -> None:
        """Take the claims for bound, or for being bound, so that no other pod is given the same volume.

        Raises PluginError, and assumes nothing then.
        """
        try:
            for volume, claim in found.bindings:
                self._volumes.bindings.append((self._assume(volume, _kept_for(volume, claim)), claim))
            for claim in found.provisions:
                self._volumes.provisions.append(self._assume(claim, _made_for(claim, self._node_name)))
        except OutOfSyncError as error:
            self.revert()
            raise PluginError(_out_of_sync(error, self._rules)) from error

    def revert(self) -> None:
        """Undo what was assumed; what was written stays written, and the watch brings it.

        In later releases, a volume that was written stays assumed until then.
        """
        while self._assumed:
            item = self._assumed.pop()
            self._cluster.storage.restore(item)
            change = Change.VOLUME if isinstance(item, PersistentVolume) else Change.CLAIM
            self._cluster.changes.notify(change, key_of(item))

    async def bind(self, timeout_seconds: float) -> None:
        """Write what was assumed, and wait until all claims are bound.

        Raises KubeError if a write fails, and PluginError if the pod is gone, or the claims cannot be bound or not in
        time.
        """
        volumes = self._volumes
        for number, (volume, claim) in enumerate(volumes.bindings):
            volumes.bindings[number] = (await self._api.write_volume(volume), claim)
            if self._rules.written_volumes_stay_assumed:
                self._assumed = [item for item in self._assumed if item is not volume]
        for number, claim in enumerate(volumes.provisions):
            volumes.provisions[number] = await self._api.write_claim(claim)
        try:
            await self._wait(timeout_seconds)
        except PluginError as error:
            raise PluginError(f"binding volumes: {error}") from error

    def _assume(self, seen: A, assumed: A) -> A:
        if assumed != seen:
            self._cluster.storage.assume(seen, assumed)
            self._assumed.append(assumed)
        return assumed

    async def _wait(self, timeout_seconds: float) -> None:
        now = asyncio.get_running_loop().time
        deadline = now() + timeout_seconds
        while True:
            is_known = self._is_known()
            if self._was_known and not is_known:
                raise PluginError(f'pod does not exist any more: pod "{self._pod.metadata.name}" not found')
            self._was_known = is_known
            if self._are_bound():
                return
            left = deadline - now()
            if left <= 0:
                claims = [*(claim for _, claim in self._volumes.bindings), *self._volumes.provisions]
                raise PluginError(f"context deadline exceeded: {self._unbound(claims)} within {timeout_seconds:g} s")
            await self._cluster.changes.wait_for(self._awaited(), min(left, _POLL_SECONDS))

    def _is_known(self) -> bool:
        return self._cluster.pod(pod_uid(self._pod)) is not None

    def _awaited(self) -> set[ObjectChange]:
        """Return the changes that can end the wait now: those of this pod, its node, its claims and their volumes.

        The poll notices what else ends it, such as a claim that goes. So a burst of pods takes time in proportion to
        the pods, and not to the pods times the changes.
        """
        awaited = {(Change.PENDING_POD_REMOVED, key_of(self._pod)), (Change.NODE_REMOVED, ("", self._node_name))}
        for volume, claim in self._volumes.bindings:
            awaited |= {(Change.VOLUME, key_of(volume)), (Change.CLAIM, key_of(claim))}
        for written in self._volumes.provisions:
            key = key_of(written)
            awaited.add((Change.CLAIM, key))
            claim_now = self._cluster.storage.claim(*key)
            if claim_now is not None and claim_now.spec.volume_name:
                awaited.add((Change.VOLUME, ("", claim_now.spec.volume_name)))
        return awaited

    def _are_bound(self) -> bool:
        """Return whether all claims are bound, as far as the watch shows. Raises PluginError if they never will be."""
        if not self._cluster.nodes.is_node(self._node_name):
            raise PluginError(f'failed to get node "{self._node_name}": node "{self._node_name}" not found')
        return all(self._is_bound_to(*binding) for binding in self._volumes.bindings) and all(
            map(self._is_made, self._volumes.provisions)
        )

    def _is_bound_to(self, written: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
        name = written.metadata.name
        volume = self._cluster.storage.volume(name)
        if volume is None:
            raise PluginError(f"failed to check binding: {_not_found(written, self._rules)}")
        known_claim = self._cluster.storage.claim(*key_of(claim))
        if known_claim is None:
            raise PluginError(f"failed to check binding: {_not_found(claim, self._rules)}")
        if _is_older(volume.metadata, written.metadata):
            return False
        _require_reach(self._cluster, self._node_name, volume)
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            raise PluginError(f'ClaimRef got reset for pv "{name}"')
        return known_claim.is_bound

    def _is_made(self, written: PersistentVolumeClaim) -> bool:
        name = written.metadata.name
        claim = self._cluster.storage.claim(*key_of(written))
        if claim is None:
            raise PluginError(f"failed to check provisioning pvc: {_not_found(written, self._rules)}")
        if _is_older(claim.metadata, written.metadata):
            return False
        if not claim.metadata.annotations:
            raise PluginError(f'selectedNode annotation reset for PVC "{name}"')
        if claim.metadata.annotations.get(SELECTED_NODE_ANNOTATION) != self._node_name:
            # A provisioner removes the annotation to report that it cannot make the volume there.
            raise PluginError(f'provisioning failed for PVC "{name}"')
        if claim.spec.volume_name:
            volume = self._cluster.storage.volume(claim.spec.volume_name)
            if volume is None:
                return False  # its watch is behind that of claims
            _require_reach(self._cluster, self._node_name, volume)
        return claim.is_bound

    def _unbound(self, claims: Iterable[PersistentVolumeClaim]) -> str:
        storage = self._cluster.storage
        known = [storage.claim(*key_of(claim)) or claim for claim in claims]
        return f"{', '.join(_name(claim) for claim in known if not claim.is_bound)} not bound"


def _kept_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """Return a volume bound to a claim, as far as that is the scheduler's to write (GetBindVolumeToClaim)."""
    metadata = claim.metadata
    kept_for = volume.spec.claim_ref
    if kept_for is not None and kept_for.uid == metadata.uid:
        return volume
    wanted = ClaimReference(metadata.namespace, metadata.name, metadata.uid, metadata.resource_version)
    bound = structs.replace(volume, spec=structs.replace(volume.spec, claim_ref=wanted))
    if kept_for is not None:
        return bound  # reserved for the claim by name, without its UID
    return structs.replace(bound, metadata=_annotated(volume.metadata, BOUND_BY_CONTROLLER_ANNOTATION, "yes"))


def _made_for(claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
    """Return a claim that asks for a volume which a node can reach."""
    return structs.replace(claim, metadata=_annotated(claim.metadata, SELECTED_NODE_ANNOTATION, node_name))


def _annotated(metadata: ObjectMeta, key: str, value: str) -> ObjectMeta:
    return structs.replace(metadata, annotations={**metadata.annotations, key: value})


def _require_reach(cluster: Cluster, node_name: str, volume: PersistentVolume) -> None:
    """Raise PluginError for a volume that turned out to be out of the node's reach."""
    node = cluster.view(cluster.nodes.rows_named([node_name]))
    verdicts = VolumeVerdicts(1)
    reached = reach_volume(node, volume, verdicts, np.ones(1, np.bool_))
    verdicts.require_none()
    if not reached.all():
        name = volume.metadata.name
        raise PluginError(f'pv "{name}" node affinity doesn\'t match node "{node_name}": no matching NodeSelectorTerms')


def _is_older(known: ObjectMeta, written: ObjectMeta) -> bool:
    """Return whether the watch does not show yet what was written. Objects of a cluster file may have no version."""
    return version_number(known.resource_version) < version_number(written.resource_version)


def _out_of_sync(error: OutOfSyncError, rules: Rules) -> str:
    """Describe what has changed since Filter saw it, or is gone."""
    seen, known = error.seen, error.known
    if known is None:
        return _not_found(seen, rules)
    kind = "" if rules.storage_named_by_resource else f"v1.{type(seen).__name__} "
    versions = f"(stored: {known.metadata.resource_version}, assume: {seen.metadata.resource_version})"
    return f'{kind}"{_name(seen)}" is out of sync {versions}'


def _not_found(item: Assumable, rules: Rules) -> str:
    """Describe what is gone."""
    if rules.storage_named_by_resource:
        return f'{_PLURALS[type(item)]} "{_name(item)}" not found'
    return f'could not find v1.{type(item).__name__} "{_name(item)}"'


def _name(item: Assumable) -> str:
    return "/".join(filter(None, key_of(item)))

"""The claims of a pod, and how far they are bound."""

import msgspec

from extender_service.cluster.pods.pod_volumes import ClaimUse, PodVolumes
from extender_service.cluster.volumes.storage_table import Storage
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.status import Status
from extender_service.kube.parsing.selectors import Operator
from extender_service.kube.types.storage import WAIT_FOR_FIRST_CONSUMER, PersistentVolume, PersistentVolumeClaim

_HOSTNAME = "kubernetes.io/hostname"
_LOST = "Lost"


class UnusableClaimError(Exception):
    """A claim that keeps its pod from running anywhere; the text is the reason."""


class PodClaims(msgspec.Struct):
    """A pod's claims: bound, to be bound once the pod has a node, and to be bound before it gets one.

    A pod for which there is a `refusal` has none here.
    """

    bound: list[PersistentVolumeClaim]
    waiting: list[PersistentVolumeClaim]
    immediate: list[PersistentVolumeClaim]
    refusal: Status | None = None


def claims_of(volumes: PodVolumes, storage: Storage) -> list[PersistentVolumeClaim]:
    """Return a pod's claims, in the order of its `volumes` (podHasPVCs). Raises UnusableClaimError."""
    claims = []
    for use in volumes.attachable:
        if not isinstance(use, ClaimUse):
            continue
        name = use.key[1]
        claim = storage.claim(*use.key)
        if claim is None and use.is_ephemeral:
            raise UnusableClaimError(
                f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            )
        if claim is None:
            raise UnusableClaimError(f'persistentvolumeclaim "{name}" not found')
        if claim.status.phase == _LOST:
            lost = claim.spec.volume_name
            raise UnusableClaimError(f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{lost}"')
        if claim.metadata.deletion_timestamp:
            raise UnusableClaimError(f'persistentvolumeclaim "{name}" is being deleted')
        if fault := use.ownership_fault(claim):
            raise UnusableClaimError(fault)
        claims.append(claim)
    return claims


def sort_out(claims: list[PersistentVolumeClaim], storage: Storage) -> PodClaims:
    """Group claims by how far they are bound, or are assumed to be (GetPodVolumeClaims in binder.go).

    Raises PluginError.
    """
    sorted_out = PodClaims([], [], [])
    for claim in map(storage.latest, claims):
        if claim.is_bound:
            sorted_out.bound.append(claim)
        elif _waits(claim, storage) and not claim.spec.volume_name:
            sorted_out.waiting.append(claim)
        else:
            sorted_out.immediate.append(claim)
    return sorted_out


def _waits(claim: PersistentVolumeClaim, storage: Storage) -> bool:
    storage_class = storage.storage_class(claim.class_name) if claim.class_name else None
    if storage_class is None:
        return False
    if storage_class.volume_binding_mode is None:
        raise PluginError(f'VolumeBindingMode not set for StorageClass "{claim.class_name}"')
    return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def eligible_nodes(bound: list[PersistentVolumeClaim], storage: Storage) -> set[str] | None:
    """Return the only nodes that a pod's local volumes allow, None if they allow all (GetEligibleNodes)."""
    volumes = [storage.volume(claim.spec.volume_name) for claim in bound]
    eligible: set[str] | None = None
    for volume in volumes:
        if volume is None:
            return None
        names = local_nodes(volume)
        if names:
            eligible = names if eligible is None else eligible & names
    return eligible


def local_nodes(volume: PersistentVolume) -> set[str]:
    """Return the host names that a volume's affinity lists; none for a volume that is not local."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return set()
    names: set[str] = set()
    for term in affinity.required.node_selector_terms:
        choices = [
            set(requirement.values)
            for requirement in term.match_expressions
            if requirement.key == _HOSTNAME and requirement.operator == Operator.IN
        ]
        if choices:
            names |= set.intersection(*choices)
    return names

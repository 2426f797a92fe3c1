"""Binds a pod's claims to volumes that exist already: on each node the smallest that fits, each volume once
(findMatchingVolumes in plugins/volumebinding/binder.go, FindMatchingVolume in component-helpers)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import itemgetter

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.view.node_view import NodeView
from extender_service.cluster.volumes.free_volumes import FreeVolume, FreeVolumes, reach_of
from extender_service.config.rules import Rules
from extender_service.framework.plugin_errors import PluginError
from extender_service.kube.parsing.quantities import parse_quantity
from extender_service.kube.parsing.selectors import Selector, SelectorError, parse_label_selector
from extender_service.kube.types.keys import Key, key_of
from extender_service.kube.types.storage import PersistentVolume, PersistentVolumeClaim
from extender_service.plugins.volume_binding.reach import NEVER, can_reach, lowest_ranks

UNBOUND = -1

_FILESYSTEM = "Filesystem"


class StaticBindings(msgspec.Struct):
    """What claims would be bound to: for each claim and node, the number of a volume in `volumes`, or UNBOUND.

    Claims that find nothing share one array.
    """

    claims: Sequence[PersistentVolumeClaim]
    volumes: list[PersistentVolume]
    chosen: list[NDArray[np.intp]]


class _Wanted(msgspec.Struct, frozen=True):
    """What a volume must have to be bound to a claim."""

    claim: PersistentVolumeClaim
    request_nanos: int
    selector: Selector | None
    access_modes: frozenset[str]

    def fits(self, free: FreeVolume) -> bool:
        """Return whether a volume without a claimRef fits: size, mode, labels and access modes."""
        volume = free.volume
        return (
            self.is_large_enough(free)
            and (self.selector is None or self.selector.matches(volume.metadata.labels))
            and self.access_modes.issubset(volume.spec.access_modes)
        )

    def is_kept(self, free: FreeVolume) -> bool:
        """Return whether a volume whose claimRef has this claim's name has its UID or none, and fits."""
        reference = free.volume.spec.claim_ref
        return (
            reference is not None
            and reference.uid in ("", self.claim.metadata.uid)
            and free.volume.class_name == self.claim.class_name
            and self.is_large_enough(free)
        )

    def is_large_enough(self, free: FreeVolume) -> bool:
        """Return whether a volume has the claim's mode and attributes, and at least the requested size."""
        volume, claim = free.volume.spec, self.claim.spec
        return (
            free.capacity_nanos >= self.request_nanos
            and (volume.volume_mode or _FILESYSTEM) == (claim.volume_mode or _FILESYSTEM)
            and volume.volume_attributes_class_name == claim.volume_attributes_class_name
        )


def bind_statically(
    nodes: NodeView, claims: Iterable[PersistentVolumeClaim], free: FreeVolumes, rules: Rules
) -> StaticBindings:
    """Find a volume for each claim on each node, the smallest claim first. A claim that is given twice gets two.

    Raises PluginError for a claim that cannot be read; in releases without volume_attributes_classes, one that has such
    a class.
    """
    by_size = sorted(claims, key=request_nanos)
    found = StaticBindings(by_size, [], [])
    numbers: dict[str, int] = {}
    nowhere = np.full(len(nodes), UNBOUND, np.intp)
    taken: list[NDArray[np.intp]] = []
    times: Counter[Key] = Counter()
    hopeless: set[Key] = set()
    for claim in by_size:
        key = key_of(claim)
        chosen = nowhere
        # A pod may give a claim thousands of times: one that has found nothing finds nothing again.
        if key not in hopeless:
            wanted = _wanted(claim, rules)
            kept = [volume for volume in free.kept_for(key) if wanted.is_kept(volume)]
            chosen, undecided = _kept(nodes, kept, times[key], numbers, found)
            if undecided.any():
                chosen = np.where(undecided, _smallest(nodes, wanted, free, numbers, found, taken), chosen)
            if (chosen != UNBOUND).any():
                taken.append(chosen)
                times[key] += 1
            else:
                hopeless.add(key)
                chosen = nowhere
        found.chosen.append(chosen)
    return found


def request_nanos(claim: PersistentVolumeClaim) -> int:
    """Return how much storage a claim requests, in nanos (1e-9 bytes)."""
    return parse_quantity(claim.request or 0)


def _kept(
    nodes: NodeView, kept: Sequence[FreeVolume], before: int, numbers: dict[str, int], found: StaticBindings
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the kept volume on each node, and which nodes have none left. A node gets the first one left, or none if
    that is out of its reach.

    `before` is how often the claim was given before. Only it can take these volumes: where it did not take the first
    ones in their turn, one of them was out of reach, and remains the first one left.
    """
    reached = np.ones(len(nodes), np.bool_)
    for free in kept[: before + 1]:
        reached &= can_reach(nodes, reach_of(free.volume))
    if before >= len(kept):
        return np.full(len(nodes), UNBOUND, np.intp), reached
    number = _number(kept[before].volume, numbers, found.volumes)
    return np.where(reached, number, UNBOUND), np.zeros(len(nodes), np.bool_)


def _smallest(
    nodes: NodeView,
    wanted: _Wanted,
    free: FreeVolumes,
    numbers: dict[str, int],
    found: StaticBindings,
    taken_before: Sequence[NDArray[np.intp]],
) -> NDArray[np.intp]:
    # Of volumes with the same reach, a node can have lost only as many as claims before have taken.
    depth = len(taken_before) + 1
    fitting = [
        (volume.capacity_nanos, volume.volume.metadata.name, reach, volume.volume)
        for reach, volumes in free.of_class(wanted.claim.class_name).items()
        for volume in islice(filter(wanted.fits, volumes), depth)
    ]
    fitting.sort(key=itemgetter(0, 1))
    ranks = lowest_ranks(nodes, [reach for _, _, reach, _ in fitting], depth)
    number_of_rank = np.array([*(_number(volume, numbers, found.volumes) for *_, volume in fitting), UNBOUND], np.intp)
    if taken_before:
        rank_of_number = np.full(len(found.volumes) + 1, NEVER, np.int64)  # the last entry is UNBOUND's
        rank_of_number[number_of_rank[:-1]] = np.arange(len(fitting))
        lowest = _lowest_left(ranks, rank_of_number[np.stack(taken_before, axis=1)])
    else:
        lowest = ranks[:, 0]
    return number_of_rank[np.minimum(lowest, len(fitting))]


def _lowest_left(ranks: NDArray[np.int64], taken: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each node the lowest rank that is not taken there. `ranks` are in order, and one more than the taken.

    Taken ranks other than NEVER are among the node's: in order, both are the same up to the first rank that is left.
    """
    differs = np.ones(ranks.shape, np.bool_)
    differs[:, :-1] = ranks[:, :-1] != np.sort(taken, axis=1)
    lowest: NDArray[np.int64] = ranks[np.arange(len(ranks)), differs.argmax(axis=1)]
    return lowest


def _wanted(claim: PersistentVolumeClaim, rules: Rules) -> _Wanted:
    name = "/".join(key_of(claim))
    if claim.spec.volume_attributes_class_name and not rules.volume_attributes_classes:
        raise PluginError(
            f"unsupported volumeAttributesClassName is set on claim {name} when the feature-gate VolumeAttributesClass "
            "is disabled"
        )
    try:
        selector = None if claim.spec.selector is None else parse_label_selector(claim.spec.selector)
    except SelectorError as error:
        found = error.text(rules.wording)
        raise PluginError(f"error creating internal label selector for claim: {name}: {found}") from error
    return _Wanted(claim, request_nanos(claim), selector, frozenset(claim.spec.access_modes))


def _number(volume: PersistentVolume, numbers: dict[str, int], volumes: list[PersistentVolume]) -> int:
    number = numbers.setdefault(volume.metadata.name, len(volumes))
    if number == len(volumes):
        volumes.append(volume)
    return number

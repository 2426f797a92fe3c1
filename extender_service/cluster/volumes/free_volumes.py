"""Volumes that claims can be bound to."""

from bisect import insort
from collections.abc import Mapping, Sequence

import msgspec

from extender_service.kube.parsing.quantities import parse_quantity
from extender_service.kube.parsing.selectors import ParsedNodeSelector, parse_node_selector
from extender_service.kube.types.keys import Key
from extender_service.kube.types.storage import STORAGE, PersistentVolume

_AVAILABLE = "Available"

# The nodes that can reach a volume; None for all.
Reach = ParsedNodeSelector | None


class FreeVolume(msgspec.Struct, frozen=True, gc=False):
    """A volume to bind, and its size in nano bytes."""

    capacity_nanos: int
    volume: PersistentVolume

    @property
    def name(self) -> str:
        """The volume's name."""
        return self.volume.metadata.name


class FreeVolumes:
    """Free volumes, by storage class and by the nodes that can reach them, or by the claim that they are kept for.

    Volumes share few reaches, or each node has its own few: so the smallest that fits is found without going through
    all volumes for every node.
    """

    def __init__(self) -> None:
        self._by_name: dict[str, FreeVolume] = {}
        self._by_class: dict[str, dict[Reach, list[FreeVolume]]] = {}
        self._by_claim: dict[Key, tuple[FreeVolume, ...]] = {}

    def sizes(self) -> dict[str, int]:
        """How many entries each table has, by its name."""
        return {
            "free_volumes": len(self._by_name),
            "free_classes": len(self._by_class),
            "free_reaches": sum(map(len, self._by_class.values())),
            "free_claims": len(self._by_claim),
        }

    def of_class(self, class_name: str) -> Mapping[Reach, Sequence[FreeVolume]]:
        """Volumes that are kept for no claim, by the nodes that can reach them, smallest first."""
        return self._by_class.get(class_name, {})

    def kept_for(self, claim: Key) -> Sequence[FreeVolume]:
        """Volumes that name a claim, by namespace and name, as theirs."""
        return self._by_claim.get(claim, ())

    def add(self, free: FreeVolume) -> None:
        """Take in a volume."""
        self._by_name[free.name] = free
        reference = free.volume.spec.claim_ref
        if reference is None:
            by_reach = self._by_class.setdefault(free.volume.class_name, {})
            insort(by_reach.setdefault(reach_of(free.volume), []), free, key=_rank)
        else:
            claim = (reference.namespace, reference.name)
            self._by_claim[claim] = (*self._by_claim.get(claim, ()), free)

    def remove(self, name: str) -> None:
        """Forget a volume, if it was free."""
        free = self._by_name.pop(name, None)
        if free is None:
            return
        reference = free.volume.spec.claim_ref
        if reference is None:
            class_name, reach = free.volume.class_name, reach_of(free.volume)
            by_reach = self._by_class[class_name]
            by_reach[reach].remove(free)
            if not by_reach[reach]:
                del by_reach[reach]
            if not by_reach:
                del self._by_class[class_name]
        else:
            claim = (reference.namespace, reference.name)
            others = tuple(other for other in self._by_claim.pop(claim) if other is not free)
            if others:
                self._by_claim[claim] = others


def free_volume(volume: PersistentVolume) -> FreeVolume | None:
    """Return what is to be known of a volume if a claim could be bound to it (FindMatchingVolume in pv_helpers.go).

    Raises QuantityError for a malformed quantity.
    """
    spec = volume.spec
    if volume.metadata.deletion_timestamp:
        return None
    if spec.claim_ref is None and volume.status.phase != _AVAILABLE:
        return None
    return FreeVolume(parse_quantity(spec.capacity.get(STORAGE, 0)), volume)


def reach_of(volume: PersistentVolume) -> Reach:
    """Return which nodes can reach a volume as it is written."""
    affinity = volume.spec.node_affinity
    return None if affinity is None or affinity.required is None else parse_node_selector(affinity.required)


def _rank(free: FreeVolume) -> tuple[int, str]:
    return free.capacity_nanos, free.name

"""The table of pods: where each is and what it requests, in arrays, so that sets of pods can be summed at once."""

import itertools
from collections.abc import Collection

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.amounts.dimensions import NONZERO_CPU_MILLI, NONZERO_MEMORY_BYTES, POD_COUNT, Dimensions
from extender_service.cluster.amounts.requests import HostPort, PodRequests
from extender_service.cluster.pods.pod_changes import PodChange, PodChanges
from extender_service.cluster.pods.pod_entries import PodEntry
from extender_service.cluster.pods.pod_volumes import PodVolumes
from extender_service.cluster.pods.running_terms import RunningTerms, TermKey
from extender_service.cluster.selection.label_sets import LabelSet, LabelSets
from extender_service.cluster.structures.change_log import LARGE_BYTES
from extender_service.cluster.structures.growing_columns import GrowingColumns, column
from extender_service.cluster.structures.interning import Interner
from extender_service.kube.parsing.pod_affinity import NO_TERMS, PodAffinityTerms

_FIRST_CAPACITY = 256
_INT64_MAX = 2**63 - 1
NO_ROW = -1

PodKey = tuple[str, str]


class PodFacts(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a pod: its identity, its node, its volumes, and the number that stands for its requests."""

    namespace: str
    name: str
    uid: str
    node_name: str
    nominated_node_name: str
    requests: int
    volumes: PodVolumes

    @property
    def key(self) -> PodKey:
        """Namespace and name."""
        return (self.namespace, self.name)


class PodTable(GrowingColumns):
    """Slots of pods. What repeats is kept once: `amounts`, `port_sets`, `label_sets` and `term_sets` by number.

    - `row`: the node row a pod counts on, or NO_ROW
    - `requests`: the number of what it takes; `amounts[number]` are int64 by dimension, of what some node offers
    - `label_set`: the number of its namespace and labels; `terminating`: it is being deleted
    - `term_set`: the number of its pod affinity terms; `port_set`: that of its host ports
    - `priority`; `started`: when it started, in microseconds since 1970, or NOT_STARTED
    - `preempted`: it is being deleted because kube-scheduler preempted it
    - `in_group`: it belongs to a group of pods (spec.schedulingGroup)
    - `serial`: another one each time that a slot is taken, 0 while it is free

    For the pods that count on a row, `changes` has the latest additions and removals, `anti_affinity` the required
    terms of anti-affinity, and `affinity` all other terms of affinity and anti-affinity.
    """

    row = column(np.intp, empty=NO_ROW)
    requests = column(np.intp)
    label_set = column(np.intp)
    terminating = column(np.bool_)
    term_set = column(np.intp)
    port_set = column(np.intp)
    priority = column(np.int64)
    started = column(np.int64)
    preempted = column(np.bool_)
    in_group = column(np.bool_)
    serial = column(np.int64)

    def __init__(self, dimensions: Dimensions) -> None:
        super().__init__(_FIRST_CAPACITY)
        self.dimensions = dimensions
        self.facts: list[PodFacts | None] = []
        self.amounts = np.zeros((_FIRST_CAPACITY, dimensions.capacity), np.int64)
        self.request_sets: Interner[PodRequests] = Interner()
        # By resource that no node offers: the numbers of the requests that ask for it, and how much.
        self._unoffered: dict[str, dict[int, int]] = {}
        self.port_sets: Interner[frozenset[HostPort]] = Interner()
        self.label_sets = LabelSets()
        self.term_sets: Interner[PodAffinityTerms] = Interner()
        self.changes = PodChanges()
        self.anti_affinity = RunningTerms()
        self.affinity = RunningTerms()
        self._free: list[int] = []
        self._next_serial = itertools.count(1).__next__

    def __len__(self) -> int:
        return len(self.facts) - len(self._free)

    @property
    def unoffered_count(self) -> int:
        """How many resources pods request that no node offers."""
        return len(self._unoffered)

    def add(self, entry: PodEntry, row: int = NO_ROW) -> int:
        """Add a pod that counts on a node row, or on none; returns its slot."""
        if self._free:
            slot = self._free.pop()
        else:
            slot = len(self.facts)
            self.facts.append(None)
            if slot == len(self.row):
                self.resize_columns(2 * slot)
        number = self._hold(entry.requests)
        self.serial[slot] = self._next_serial()
        self.row[slot] = row
        self.requests[slot] = number
        self.label_set[slot] = self.label_sets.hold(entry.label_set)
        self.terminating[slot] = entry.terminating
        self.term_set[slot] = self.term_sets.hold(entry.terms)
        self.port_set[slot] = self.port_sets.hold(entry.ports)
        self.in_group[slot] = entry.in_group  # for good: the field is immutable
        self.facts[slot] = PodFacts(
            entry.namespace, entry.name, entry.uid, entry.node_name, entry.nominated_node_name, number, entry.volumes
        )
        self._set_order(slot, entry)
        if row != NO_ROW:
            self._log_change(entry.label_set, entry.terms, row, 1, is_terminating=entry.terminating)
        return slot

    def is_amended_by(self, slot: int, entry: PodEntry) -> bool:
        """Return whether an entry requests and selects the same as the pod in a slot, which `amend` can then update."""
        facts = self[slot]
        return (
            facts.uid == entry.uid
            and facts.node_name == entry.node_name
            and self.request_sets.values[facts.requests] == entry.requests
            and bool(self.terminating[slot]) == entry.terminating
            and self.label_sets[int(self.label_set[slot])] == entry.label_set
            and self.terms_of(slot) == entry.terms
            and self.ports_of(slot) == entry.ports
            and facts.volumes == entry.volumes
        )

    def amend(self, slot: int, entry: PodEntry) -> None:
        """Update the pod in a slot from an entry for which `is_amended_by` returns true."""
        facts = self[slot]
        if facts.nominated_node_name != entry.nominated_node_name:
            self.facts[slot] = msgspec.structs.replace(facts, nominated_node_name=entry.nominated_node_name)
        self._set_order(slot, entry)

    def displace(self, slot: int) -> int:
        """Let the pod in a slot count nowhere; returns the row that it counted on, or NO_ROW."""
        row = int(self.row[slot])
        if row != NO_ROW:
            self.row[slot] = NO_ROW
            label_set = self.label_sets[int(self.label_set[slot])]
            self._log_change(label_set, self.terms_of(slot), row, -1, is_terminating=bool(self.terminating[slot]))
        return row

    def remove(self, slot: int) -> None:
        """Forget the pod in a slot, which must be on no row any more."""
        facts = self[slot]
        self.label_sets.release(int(self.label_set[slot]))
        self.term_sets.release(int(self.term_set[slot]))
        self.port_sets.release(int(self.port_set[slot]))
        requests = self.request_sets.values[facts.requests]
        assert requests is not None
        if self.request_sets.release(facts.requests):
            self._forget_unoffered(facts.requests, requests)
        self.facts[slot] = None
        self.serial[slot] = 0
        self._free.append(slot)

    def __getitem__(self, slot: int) -> PodFacts:
        facts = self.facts[slot]
        assert facts is not None
        return facts

    def may_overflow(self, resource: str) -> bool:
        """Return whether pods may together request more of a resource that has no dimension than an int64 holds, or one
        of them less than nothing."""
        asking = self._unoffered.get(resource)
        return asking is not None and (min(asking.values()) < 0 or max(asking.values()) > _INT64_MAX // len(self))

    def add_requested_by_row(self, resource: str, by_row: NDArray[np.int64]) -> None:
        """Add what the pods on each row request of a resource that has no dimension."""
        if resource not in self._unoffered:
            return
        slots = (self.row != NO_ROW).nonzero()[0]
        np.add.at(by_row, self.row[slots], self.unoffered_amounts(resource, slots))

    def unoffered_amounts(self, resource: str, slots: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return what the pods in some slots request of a resource that has no dimension."""
        asking = self._unoffered.get(resource, {})
        by_number = np.zeros(len(self.amounts), np.int64)
        by_number[[*asking]] = [*asking.values()]
        amounts: NDArray[np.int64] = by_number.take(self.requests.take(slots))
        return amounts

    def give_dimension(self, resource: str, dimension: int) -> None:
        """Keep under a new dimension what pods request of a resource, which a node offers now."""
        if self.dimensions.size > self.amounts.shape[1]:
            self.amounts = np.pad(self.amounts, ((0, 0), (0, self.dimensions.capacity - self.amounts.shape[1])))
        for number, amount in self._unoffered.pop(resource, {}).items():
            self.amounts[number, dimension] = amount

    def take_dimension(self, resource: str, dimension: int) -> None:
        """Keep without a dimension what pods request of a resource, which no node offers any more."""
        amounts = self.amounts[:, dimension]
        sets = self.request_sets.values
        asking = {number: int(amounts[number]) for number in amounts.nonzero()[0].tolist() if sets[number] is not None}
        if asking:
            self._unoffered[resource] = asking
        amounts[:] = 0

    def amounts_of(self, slot: int) -> NDArray[np.int64]:
        """What the pod in a slot takes, by dimension."""
        amounts: NDArray[np.int64] = self.amounts[self.requests[slot]]
        return amounts

    def ports_of(self, slot: int) -> frozenset[HostPort]:
        """The host ports of the pod in a slot."""
        ports = self.port_sets.values[int(self.port_set[slot])]
        assert ports is not None
        return ports

    def terms_of(self, slot: int) -> PodAffinityTerms:
        """The pod affinity terms of the pod in a slot."""
        terms = self.term_sets.values[int(self.term_set[slot])]
        assert terms is not None
        return terms

    def on_row(self, row: int) -> Collection[int]:
        """The slots of the pods that count on a node row."""
        slots: list[int] = np.flatnonzero(self.row == row).tolist()
        return slots

    def _log_change(
        self, label_set: LabelSet, terms: PodAffinityTerms, row: int, sign: int, *, is_terminating: bool
    ) -> None:
        """Record that a pod was added to a row (sign 1) or removed from it (-1)."""
        change = PodChange(label_set, row, sign, is_terminating)
        if label_set.size_bytes <= LARGE_BYTES:
            self.changes.append(change)
        else:
            self.changes.append_large(change, label_set.size_bytes)
        if terms is NO_TERMS:
            return
        for term in terms.required_anti:
            self.anti_affinity.add(TermKey(term), row, sign)
        for term in terms.required:
            self.affinity.add(TermKey(term), row, sign)
        for weighted in (*terms.preferred, *terms.preferred_anti):
            self.affinity.add(TermKey(weighted.term, weighted.weight), row, sign)

    def _hold(self, requests: PodRequests) -> int:
        held_before = len(self.request_sets)
        number = self.request_sets.hold(requests)
        if len(self.request_sets) == held_before:
            return number
        if number == len(self.amounts):
            self.amounts = np.pad(self.amounts, ((0, number), (0, 0)))
        amounts = self.amounts[number]
        amounts[:] = 0
        for resource, amount in requests.amounts:
            dimension = self.dimensions.find(resource)
            if dimension >= 0:
                amounts[dimension] = amount
            elif amount:
                self._unoffered.setdefault(resource, {})[number] = amount
        amounts[POD_COUNT] = 1
        amounts[NONZERO_CPU_MILLI] = requests.nonzero_cpu_milli
        amounts[NONZERO_MEMORY_BYTES] = requests.nonzero_memory_bytes
        return number

    def _forget_unoffered(self, number: int, requests: PodRequests) -> None:
        for resource, _ in requests.amounts:
            asking = self._unoffered.get(resource)
            if asking is not None and asking.pop(number, 0) and not asking:
                del self._unoffered[resource]

    def _set_order(self, slot: int, entry: PodEntry) -> None:
        """Record what preemption orders its victims by."""
        self.priority[slot] = entry.priority
        self.started[slot] = entry.started
        self.preempted[slot] = entry.preempted

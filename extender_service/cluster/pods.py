"""The table of pods: where each is and what it takes, as numbers that whole sets of pods can be summed by."""

from collections.abc import Collection

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.dimensions import NONZERO_CPU_MILLI, NONZERO_MEMORY_BYTES, POD_COUNT, Dimensions
from extender_service.cluster.interning import Interner
from extender_service.cluster.resources import HostPort, PodRequests, host_ports, pod_requests, request_shape
from extender_service.kube.objects import Pod

_FIRST_CAPACITY = 256
NO_ROW = -1

PodKey = tuple[str, str]


class PodFacts(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a pod: who it is, where it is, and the numbers of what it takes."""

    namespace: str
    name: str
    uid: str
    node_name: str
    nominated_node_name: str
    requests: int
    ports: int

    @property
    def key(self) -> PodKey:
        """Namespace and name."""
        return (self.namespace, self.name)


class PodTable:
    """Slots of pods. What pods take repeats, so it is kept once: `amounts` and `port_sets` by number.

    - `row`: the node row a pod counts on, or NO_ROW
    - `requests`: the number of what it takes; `amounts[number]` are int64 by dimension
    """

    def __init__(self, dimensions: Dimensions) -> None:
        self.dimensions = dimensions
        self.facts: list[PodFacts | None] = []
        self.row = np.full(_FIRST_CAPACITY, NO_ROW, np.intp)
        self.requests = np.zeros(_FIRST_CAPACITY, np.intp)
        self.amounts = np.zeros((_FIRST_CAPACITY, dimensions.size), np.int64)
        self.request_sets: Interner[PodRequests] = Interner()
        self.port_sets: Interner[frozenset[HostPort]] = Interner()
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self.facts) - len(self._free)

    def add(self, pod: Pod, uid: str, node_name: str) -> int:
        """Take a pod in, on no row yet; returns its slot. Raises QuantityError for a malformed quantity."""
        requests = pod_requests(request_shape(pod.spec))
        if self._free:
            slot = self._free.pop()
        else:
            slot = len(self.facts)
            self.facts.append(None)
            if slot == len(self.row):
                self._grow()
        number = self._hold(requests)
        self.row[slot] = NO_ROW
        self.requests[slot] = number
        self.facts[slot] = PodFacts(
            pod.metadata.namespace,
            pod.metadata.name,
            uid,
            node_name,
            pod.status.nominated_node_name,
            number,
            self.port_sets.hold(host_ports(pod.spec)),
        )
        return slot

    def remove(self, slot: int) -> None:
        """Forget the pod in a slot, which must be on no row any more."""
        facts = self[slot]
        self.port_sets.release(facts.ports)
        requests = self.request_sets.values[facts.requests]
        assert requests is not None
        if self.request_sets.release(facts.requests):
            for resource, _ in requests.amounts:
                self.dimensions.release(resource)
        self.facts[slot] = None
        self._free.append(slot)

    def __getitem__(self, slot: int) -> PodFacts:
        facts = self.facts[slot]
        assert facts is not None
        return facts

    def is_same(self, slot: int, pod: Pod, uid: str) -> bool:
        """Tell whether the pod in a slot would be taken in just as `pod`."""
        facts = self[slot]
        return (
            facts.uid == uid
            and facts.node_name == pod.spec.node_name
            and facts.nominated_node_name == pod.status.nominated_node_name
            and facts.requests == self.request_sets.number_of(pod_requests(request_shape(pod.spec)))
            and facts.ports == self.port_sets.number_of(host_ports(pod.spec))
        )

    def amounts_of(self, slot: int) -> NDArray[np.int64]:
        """What the pod in a slot takes, by dimension."""
        amounts: NDArray[np.int64] = self.amounts[self.requests[slot]]
        return amounts

    def ports_of(self, slot: int) -> frozenset[HostPort]:
        """The host ports of the pod in a slot."""
        ports = self.port_sets.values[self[slot].ports]
        assert ports is not None
        return ports

    def on_row(self, row: int) -> Collection[int]:
        """The slots of the pods that count on a node row."""
        slots: list[int] = np.flatnonzero(self.row == row).tolist()
        return slots

    def _hold(self, requests: PodRequests) -> int:
        held_before = len(self.request_sets)
        number = self.request_sets.hold(requests)
        if len(self.request_sets) == held_before:
            return number
        dimensions = {self.dimensions.hold(resource): amount for resource, amount in requests.amounts}
        if self.dimensions.size > self.amounts.shape[1]:
            self.amounts = np.pad(self.amounts, ((0, 0), (0, self.dimensions.size - self.amounts.shape[1])))
        if number == len(self.amounts):
            self.amounts = np.pad(self.amounts, ((0, number), (0, 0)))
        amounts = self.amounts[number]
        amounts[:] = 0
        for dimension, amount in dimensions.items():
            amounts[dimension] = amount
        amounts[POD_COUNT] = 1
        amounts[NONZERO_CPU_MILLI] = requests.nonzero_cpu_milli
        amounts[NONZERO_MEMORY_BYTES] = requests.nonzero_memory_bytes
        return number

    def _grow(self) -> None:
        more = len(self.row)
        self.row = np.concatenate([self.row, np.full(more, NO_ROW, np.intp)])
        self.requests = np.concatenate([self.requests, np.zeros(more, np.intp)])

"""The dimensions in which nodes fill up, as rows of a matrix."""

from extender_service.cluster.amounts.requests import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from extender_service.cluster.structures.interning import Interner

# Dimensions that always exist. The nonzero ones are what pods weigh in scoring, where a pod without requests counts.
# Those that most pods ask for together lie side by side, so that reading them copies nothing.
POD_COUNT = 0
CPU_MILLI = 1
MEMORY_BYTES = 2
EPHEMERAL_STORAGE_BYTES = 3
NONZERO_CPU_MILLI = 4
NONZERO_MEMORY_BYTES = 5
FIRST_SCALAR = 6

# In place of the dimension of a resource that no node offers.
UNOFFERED = -1

_LEAST_CAPACITY = 8

FIXED = {CPU: CPU_MILLI, MEMORY: MEMORY_BYTES, EPHEMERAL_STORAGE: EPHEMERAL_STORAGE_BYTES, PODS: POD_COUNT}
_FIXED_NAMES = (
    "pods",
    "cpu_milli",
    "memory_bytes",
    "ephemeral_storage_bytes",
    "nonzero_cpu_milli",
    "nonzero_memory_bytes",
)


class Dimensions:
    """Which row of the matrices of amounts stands for which resource. A scalar resource has one while a node offers it:
    authors of pods may make up thousands, and a row has an entry for each node.

    `reused` changes whenever a dimension gets a resource in place of one that is gone, of which older amounts may be.
    """

    def __init__(self) -> None:
        self.scalars: Interner[str] = Interner()
        self.reused = b""
        self._changes: list[tuple[str, int]] = []

    def __len__(self) -> int:
        return FIRST_SCALAR + len(self.scalars)

    @property
    def size(self) -> int:
        """One more than the highest dimension in use."""
        return FIRST_SCALAR + self.scalars.size

    @property
    def capacity(self) -> int:
        """How many rows to give to a matrix: to add some takes a copy of all, so that is to be done seldom."""
        return max(_LEAST_CAPACITY, 1 << (self.size - 1).bit_length())

    def names(self) -> list[str]:
        """What each dimension counts, with its unit where it has one; empty for an unused one."""
        return [*_FIXED_NAMES, *(resource or "" for resource in self.scalars.values)]

    def find(self, resource: str) -> int:
        """Return a resource's dimension, or UNOFFERED."""
        fixed = FIXED.get(resource)
        if fixed is not None:
            return fixed
        number = self.scalars.number_of(resource)
        return UNOFFERED if number < 0 else FIRST_SCALAR + number

    def is_used(self, dimension: int) -> bool:
        """Return whether this is the dimension of a resource."""
        if dimension < FIRST_SCALAR:
            return dimension >= 0
        return dimension < self.size and self.scalars.values[dimension - FIRST_SCALAR] is not None

    def hold(self, resource: str) -> int:
        """Return a resource's dimension, which is kept until released as often."""
        fixed = FIXED.get(resource)
        if fixed is not None:
            return fixed
        version, size = self.scalars.version, self.scalars.size
        dimension = FIRST_SCALAR + self.scalars.hold(resource)
        if self.scalars.version != version:
            self._changes.append((resource, dimension))
            if self.scalars.size == size:
                self.reused = b"%d" % self.scalars.version
        return dimension

    def release(self, resource: str) -> None:
        """Let go of a dimension once."""
        if resource in FIXED:
            return
        number = self.scalars.number_of(resource)
        if self.scalars.release(number):
            self._changes.append((resource, FIRST_SCALAR + number))

    def take_changes(self) -> list[tuple[str, int]]:
        """Return the scalar resources that got a dimension since the last call, or lost it, each with the dimension."""
        changes, self._changes = self._changes, []
        return changes

    def copy(self) -> "Dimensions":
        """Return dimensions that can be changed without changing these. Those that there are stay, also when they are
        released: the amounts of pods are by their numbers."""
        twin = Dimensions()
        twin.scalars = self.scalars.copy()
        for number, _ in twin.scalars:
            twin.scalars.hold_again(number)
        twin.reused = self.reused
        return twin

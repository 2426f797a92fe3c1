"""The parts of a world that can be left out, one by one: a pod, a node, a fault. All else stays as it was drawn."""

from collections.abc import Collection


class Parts:
    """What is in a world. `offered` is each part that was asked about, with the time at which it comes."""

    def __init__(self, without: Collection[str] = ()) -> None:
        """`without` names the parts that are left out."""
        self.offered: dict[str, float] = {}
        self._without = frozenset(without)

    def has(self, name: str, at: float = 0.0) -> bool:
        """Return whether a part is in the world. Ask after all draws for it, so that the others keep theirs.

        `name` is that of its kind, a dash, and its own, as in "pod-17"; `at` is when it begins.
        """
        self.offered[name] = at
        return name not in self._without

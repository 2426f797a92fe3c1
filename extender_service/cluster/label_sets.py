"""The distinct labels of pods, and which of them a selector matches."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.interning import Interner
from extender_service.kube.selectors import Operator, Requirement, Selector

# No label has an empty key: in the index it stands for the namespace.
_NAMESPACE = ""


class LabelSet(msgspec.Struct, frozen=True, gc=False):
    """The namespace and labels of a pod; many pods share them."""

    namespace: str
    labels: dict[str, str]

    def __hash__(self) -> int:
        return hash((self.namespace, frozenset(self.labels.items())))


class PodSelector(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Pods by their labels, in some namespaces (None: in any)."""

    namespaces: frozenset[str] | None
    selector: Selector

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Tell whether a pod with these labels is selected."""
        return (self.namespaces is None or namespace in self.namespaces) and self.selector.matches(labels)


class LabelSets:
    """Numbers of label sets, and an index of them by label and value.

    The index keeps the cost of a new selector to the sets that it is about, even where every pod has labels of its own.
    """

    def __init__(self) -> None:
        self._sets: Interner[LabelSet] = Interner()
        # Numbers by key and value; a single one, as of a label that only one pod has, goes without a set around it.
        self._numbers: dict[str, dict[str, int | set[int]]] = {}

    def __len__(self) -> int:
        return len(self._sets)

    @property
    def size(self) -> int:
        """One more than the highest number in use."""
        return self._sets.size

    def __getitem__(self, number: int) -> LabelSet:
        found = self._sets.values[number]
        assert found is not None
        return found

    def number_of(self, namespace: str, labels: dict[str, str]) -> int:
        """Return the number of a label set, or -1 if nobody holds it."""
        return self._sets.number_of(LabelSet(namespace, labels))

    def hold(self, namespace: str, labels: dict[str, str]) -> int:
        """Return the number of a label set, which is kept until it is released as often as it was held."""
        label_set = LabelSet(namespace, labels)
        version = self._sets.version
        number = self._sets.hold(label_set)
        if self._sets.version != version:
            for key, value in _entries(label_set):
                values = self._numbers.setdefault(key, {})
                held = values.get(value)
                if held is None:
                    values[value] = number
                elif isinstance(held, int):
                    values[value] = {held, number}
                else:
                    held.add(number)
        return number

    def release(self, number: int) -> None:
        """Let go of a label set once."""
        label_set = self[number]
        if not self._sets.release(number):
            return
        for key, value in _entries(label_set):
            values = self._numbers[key]
            held = values[value]
            if isinstance(held, int):
                del values[value]
                if not values:
                    del self._numbers[key]
            else:
                held.remove(number)
                if len(held) == 1:
                    values[value] = held.pop()

    def matching(self, selectors: Iterable[PodSelector]) -> NDArray[np.bool_]:
        """Tell for each number whether pods with that label set are selected by all of these."""
        found = self._matching(selectors)
        mask = np.zeros(self.size, np.bool_)
        mask[np.fromiter(found, np.intp, len(found))] = True
        return mask

    def _matching(self, selectors: Iterable[PodSelector]) -> AbstractSet[int]:
        has: list[AbstractSet[int]] = []
        has_not: list[AbstractSet[int]] = []
        for pods in selectors:
            if pods.selector.nothing:
                return set()
            if pods.namespaces is not None:
                has.append(self._with(_NAMESPACE, pods.namespaces))
            for requirement in pods.selector.requirements:
                wanted = requirement.operator in (Operator.IN, Operator.EXISTS)
                (has if wanted else has_not).append(self._meant_by(requirement))
        has.sort(key=len)
        found = set(has[0]).intersection(*has[1:]) if has else {number for number, _ in self._sets}
        return found.difference(*has_not)

    def _meant_by(self, requirement: Requirement) -> AbstractSet[int]:
        """The sets that have the label, and where the requirement names values, one of these."""
        if requirement.operator in (Operator.IN, Operator.NOT_IN):
            return self._with(requirement.key, requirement.values)
        return self._with(requirement.key, self._numbers.get(requirement.key, ()))

    def _with(self, key: str, wanted: Iterable[str]) -> AbstractSet[int]:
        values = self._numbers.get(key, {})
        held = [values[value] for value in wanted if value in values]
        if len(held) == 1 and not isinstance(held[0], int):
            return held[0]
        single = {number for number in held if isinstance(number, int)}
        return single.union(*(numbers for numbers in held if not isinstance(numbers, int)))


def _entries(label_set: LabelSet) -> Iterable[tuple[str, str]]:
    yield _NAMESPACE, label_set.namespace
    yield from label_set.labels.items()

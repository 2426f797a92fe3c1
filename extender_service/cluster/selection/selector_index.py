"""Finds the few of many selectors that may select a given pod."""

from collections.abc import Collection, Hashable, Iterator, Mapping
from typing import Generic, TypeVar

from extender_service.kube.parsing.selectors import Operator, Selector

T = TypeVar("T", bound=Hashable)

# A label that a pod must have; the empty key, which no label has, stands for the pod's namespace.
_Pair = tuple[str, str]
_NAMESPACE = ""


class SelectorIndex(Generic[T]):
    """Items that select pods, filed under one thing that each of them requires of a pod.

    That is a label's value, the namespace, or the mere presence of a label: whatever has the fewest items so far.
    """

    def __init__(self) -> None:
        self._by_pair: dict[_Pair, dict[T, None]] = {}
        self._by_key: dict[str, dict[T, None]] = {}
        self._anywhere: dict[T, None] = {}
        self._filed: dict[T, list[_Pair] | str | None] = {}

    def __len__(self) -> int:
        return len(self._filed)

    def add(self, item: T, namespaces: Collection[str] | None, selector: Selector) -> None:
        """File a new item, which selects pods in these namespaces (None: perhaps in any)."""
        choices = [
            [(requirement.key, value) for value in requirement.values]
            for requirement in selector.requirements
            if requirement.operator is Operator.IN
        ]
        if namespaces is not None:
            choices.append([(_NAMESPACE, namespace) for namespace in namespaces])
        if choices:
            pairs = min(choices, key=lambda pairs: sum(1 + len(self._by_pair.get(pair, ())) for pair in pairs))
            self._filed[item] = pairs
            for pair in pairs:
                self._by_pair.setdefault(pair, {})[item] = None
            return
        key = next((item.key for item in selector.requirements if item.operator is Operator.EXISTS), None)
        self._filed[item] = key
        (self._anywhere if key is None else self._by_key.setdefault(key, {}))[item] = None

    def remove(self, item: T) -> None:
        """Take out an item."""
        filed = self._filed.pop(item)
        if filed is None:
            del self._anywhere[item]
        elif isinstance(filed, str):
            del self._by_key[filed][item]
            if not self._by_key[filed]:
                del self._by_key[filed]
        else:
            for pair in filed:
                del self._by_pair[pair][item]
                if not self._by_pair[pair]:
                    del self._by_pair[pair]

    def candidates(self, namespace: str, labels: Mapping[str, str]) -> Iterator[T]:
        """Iterate over all items that may select such a pod, and some others, each once."""
        if not self._filed:
            return
        yield from self._anywhere
        yield from self._by_pair.get((_NAMESPACE, namespace), ())
        for pair in labels.items():
            yield from self._by_pair.get(pair, ())
        if self._by_key:
            for key in labels:
                yield from self._by_key.get(key, ())

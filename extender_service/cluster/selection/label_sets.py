"""The distinct labels of pods, and which of them a selector matches."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.caches import LruCache, cached, size_of
from extender_service.cluster.structures.interning import Interner, shared
from extender_service.kube.parsing.decoder import Decoder
from extender_service.kube.parsing.selectors import Operator, Requirement, Selector
from extender_service.kube.types.core import Object

_FIRST_CAPACITY = 64
# Of a label's value as the API server takes it; longer ones come from callers alone.
_LONGEST_VALUE = 63
# Label keys that are indexed. A key that takes more is not valid.
_MOST_KEYS_BYTES = 512 << 10
# Of two texts and their place in a map, beside their characters.
_BYTES_A_LABEL = 300
# The namespace of a number that no label set has.
_UNUSED = -1


class LabelSet(msgspec.Struct, frozen=True, gc=False):
    """The namespace and labels of a pod; many pods share them. `digest` is their hash, `size_bytes` what they take."""

    namespace: str
    labels: dict[str, str]
    digest: int = 0
    size_bytes: int = 0

    def __post_init__(self) -> None:
        size_bytes = len(msgspec.json.encode(self.labels)) + _BYTES_A_LABEL * len(self.labels)
        msgspec.structs.force_setattr(self, "digest", hash((self.namespace, frozenset(self.labels.items()))))
        msgspec.structs.force_setattr(self, "size_bytes", size_bytes)

    def __hash__(self) -> int:
        return self.digest


class _Labelled(Object):
    namespace: str = ""
    labels: dict[str, str] = {}


_decoder = Decoder(_Labelled)


def label_set(namespace: str, labels: Mapping[str, str] | msgspec.Raw) -> LabelSet:
    """Return the label set of a pod: one object for all who keep it, if it is common.

    Raises DecodeError for malformed JSON.
    """
    # Bytes can be looked up where a map cannot.
    return _decoded(msgspec.json.encode({"namespace": namespace, "labels": labels}))


@cached("label sets", most_entries=1024, most_entry_bytes=16 << 10, most_size=768)
def _decoded(encoded: bytes) -> LabelSet:
    found = _decoder.decode(encoded)
    # Most values are those of other sets, too.
    common = {key: shared(value) if len(value) <= _LONGEST_VALUE else value for key, value in found.labels.items()}
    return LabelSet(shared(found.namespace), common)


class PodSelector(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Pods by their labels, in some namespaces (None: in any)."""

    namespaces: frozenset[str] | None
    selector: Selector

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether a pod with these labels is selected."""
        return (self.namespaces is None or namespace in self.namespaces) and self.selector.matches(labels)


class LabelSets:
    """Numbers of label sets, and an index of them by label and value.

    A label key is indexed when a selector first asks for it, and kept current from then on. With that, a new selector
    costs in proportion to the sets that it matches, even where every pod has labels of its own. At most `limit` keys
    are kept; those that are not asked for while half of them are added are dropped. A key that no pod has costs no look
    at the sets: a selector may name thousands.
    """

    def __init__(self, limit: int = 256) -> None:
        self.limit = limit
        self._sets: Interner[LabelSet] = Interner()
        self._namespaces: Interner[str] = Interner()
        self._namespace = np.full(_FIRST_CAPACITY, _UNUSED, np.intp)
        # How many label sets have each key.
        self._keys: Counter[str] = Counter()
        self._index: LruCache[str, _Numbers] = LruCache(None, most_entries=limit, most_bytes=_MOST_KEYS_BYTES)

    def __len__(self) -> int:
        return len(self._sets)

    @property
    def size(self) -> int:
        """One more than the highest number in use."""
        return self._sets.size

    @property
    def namespace_count(self) -> int:
        """How many namespaces they are in."""
        return len(self._namespaces)

    @property
    def indexed_count(self) -> int:
        """How many label keys are indexed."""
        return len(self._index)

    def __getitem__(self, number: int) -> LabelSet:
        found = self._sets.values[number]
        assert found is not None
        return found

    def number_of(self, label_set: LabelSet) -> int:
        """Return the number of a label set, or -1 if no pod has it."""
        return self._sets.number_of(label_set)

    def hold(self, label_set: LabelSet) -> int:
        """Return the number of a label set, which is kept until it is released as often as it was held."""
        number = self._sets.number_of(label_set)
        if number >= 0:
            self._sets.hold_again(number)
            return number
        labels = label_set.labels
        number = self._sets.hold(label_set)
        if number == len(self._namespace):
            self._namespace = np.pad(self._namespace, (0, number), constant_values=_UNUSED)
        self._namespace[number] = self._namespaces.hold(label_set.namespace)
        self._keys.update(labels.keys())
        for key, index in self._index.items():
            if key in labels:
                index.add(labels[key], number)
        return number

    def release(self, number: int) -> None:
        """Let go of a label set once."""
        labels = self[number].labels
        if self._sets.release(number):
            self._namespaces.release(int(self._namespace[number]))
            self._namespace[number] = _UNUSED
            self._keys.subtract(labels.keys())
            for key in labels:
                if not self._keys[key]:
                    del self._keys[key]
            for key, index in self._index.items():
                if key in labels:
                    index.remove(labels[key], number)

    def matching(self, selectors: Iterable[PodSelector]) -> NDArray[np.bool_]:
        """Return for each number whether all of these select pods with that label set."""
        selectors = tuple(selectors)
        mask = np.zeros(self.size, np.bool_)
        if not any(pods.selector.nothing for pods in selectors):
            numbers = self._having(requirement for pods in selectors for requirement in pods.selector.requirements)
            namespaces = [pods.namespaces for pods in selectors if pods.namespaces is not None]
            if namespaces:
                in_all = self._is_in(frozenset.intersection(*namespaces))
                numbers = numbers[in_all[self._namespace[numbers]]]
            mask[numbers] = True
        return mask

    def _having(self, requirements: Iterable[Requirement]) -> NDArray[np.intp]:
        """The numbers of the label sets that satisfy all requirements."""
        by_key: dict[str, list[Requirement]] = {}
        for requirement in requirements:
            if requirement.key in self._keys:
                by_key.setdefault(requirement.key, []).append(requirement)
            elif requirement.operator in (Operator.IN, Operator.EXISTS):
                return np.zeros(0, np.intp)
        has: list[AbstractSet[int]] = []
        has_not: list[AbstractSet[int]] = []
        for key, index in self._indexed(by_key).items():
            for requirement in _joined(by_key[key]):
                names_values = requirement.operator in (Operator.IN, Operator.NOT_IN)
                found = index.having(requirement.values) if names_values else index.having_any()
                (has if requirement.operator in (Operator.IN, Operator.EXISTS) else has_not).append(found)
        if has:
            has.sort(key=len)
            left = set(has[0]).intersection(*has[1:]).difference(*has_not)
            return np.fromiter(left, np.intp, len(left))
        used = self._namespace[: self.size] != _UNUSED
        for found in has_not:
            used[np.fromiter(found, np.intp, len(found))] = False
        return np.flatnonzero(used)

    def _is_in(self, namespaces: Iterable[str]) -> NDArray[np.bool_]:
        """Return for each number of a namespace whether it is one of these."""
        wanted = np.zeros(self._namespaces.size, np.bool_)
        wanted[[number for name in namespaces if (number := self._namespaces.number_of(name)) >= 0]] = True
        return wanted

    def _indexed(self, keys: Collection[str]) -> "dict[str, _Numbers]":
        """Return the index of each key. Those that are missing are made in one pass over the label sets."""
        found: dict[str, _Numbers] = {key: self._index[key] for key in keys if key in self._index}
        if len(found) == len(keys):
            return found
        missing = {key: _Numbers() for key in keys if key not in found}
        for number, label_set in enumerate(self._sets.values):
            if label_set is not None:
                labels = label_set.labels
                for key in missing.keys() & labels.keys():
                    missing[key].add(labels[key], number)
        # Those of a pod that names very many would take the place of all others.
        if 2 * len(missing) <= self.limit:
            for key, index in missing.items():
                # Its key alone counts: what the index holds follows from the label sets that there are.
                self._index.keep(key, index, size_of(key))
        return found | missing


def _joined(requirements: list[Requirement]) -> list[Requirement]:
    """Return requirements on one label that ask together what these do: at most one of each operator.

    A pod may name the same label thousands of times, with values that very many pods have.
    """
    if len(requirements) == 1:
        return requirements
    values_of: dict[Operator, set[str]] = {}
    for requirement in requirements:
        values = values_of.setdefault(requirement.operator, set(requirement.values))
        if requirement.operator is Operator.IN:
            values.intersection_update(requirement.values)
        else:
            values.update(requirement.values)
    return [Requirement(requirements[0].key, operator, tuple(values)) for operator, values in values_of.items()]


class _Numbers:
    """Numbers of label sets by the value of one label."""

    __slots__ = ("_by_value",)

    def __init__(self) -> None:
        # A single number, as of a label that only one pod has, goes without a set around it.
        self._by_value: dict[str, int | set[int]] = {}

    def add(self, value: str, number: int) -> None:
        """Take in a label set that has this value."""
        held = self._by_value.get(value)
        if held is None:
            self._by_value[value] = number
        elif isinstance(held, int):
            self._by_value[value] = {held, number}
        else:
            held.add(number)

    def remove(self, value: str, number: int) -> None:
        """Take out a label set."""
        held = self._by_value[value]
        if isinstance(held, int):
            del self._by_value[value]
        else:
            held.remove(number)
            if len(held) == 1:
                self._by_value[value] = held.pop()

    def having(self, values: Iterable[str]) -> AbstractSet[int]:
        """The label sets that have one of these values."""
        held = [self._by_value[value] for value in values if value in self._by_value]
        if len(held) == 1 and not isinstance(held[0], int):
            return held[0]
        single = {number for number in held if isinstance(number, int)}
        return single.union(*(numbers for numbers in held if not isinstance(numbers, int)))

    def having_any(self) -> AbstractSet[int]:
        """The label sets that have the label at all."""
        return self.having(self._by_value)

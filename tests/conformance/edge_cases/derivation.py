"""Cases made of others: with fields of pods swapped, everything doubled elsewhere, or elements of lists doubled."""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from tests.conformance.edge_cases.case_builder import Item, Source

# What an object is known by, and what must be distinct, stays.
_KEPT = {"name", "uid", "nodeName", "schedulerName", "phase"}
_DOUBLE = "-too"


def derived_case(source: Item, seed: int, index: int) -> Item:
    """Return a case that is made of another, which stays as it is."""
    rng = Source(f"{seed}-{index}")
    family = rng.choice(list(DERIVATIONS))
    # Written and read again, no two parts of the draft are the same list.
    draft = msgspec.json.decode(msgspec.json.encode(source))
    DERIVATIONS[family](draft, rng)
    return {**draft, "name": f"{family}-{seed}-{index}-of-{source['name']}"}


def _swap_fields(draft: Item, rng: Source) -> None:
    """Swap fields between pods, the pending one among them."""
    pods = [draft["pod"], *(item for item in draft["objects"] if item["kind"] == "Pod")]
    for _ in range(rng.randint(2, 8)):
        first, second = draft["pod"] if rng.chance(0.3) else rng.choice(pods), rng.choice(pods)
        part = rng.choice(["spec", "spec", "spec", "metadata", "status"])
        fields = sorted({*first.get(part, {}), *second.get(part, {})} - _KEPT - {"namespace"})
        if fields and first is not second:
            _swap(first.setdefault(part, {}), second.setdefault(part, {}), rng.choice(fields))


def _swap(first: Item, second: Item, field: str) -> None:
    ours, theirs = first.pop(field, None), second.pop(field, None)
    if theirs is not None:
        first[field] = theirs
    if ours is not None:
        second[field] = ours


def _double_namespaces(draft: Item, rng: Source) -> None:
    """Add all that has a namespace once more, in another namespace; the namespaces, too."""
    doubles = [copy.deepcopy(item) for item in draft["objects"] if item["kind"] == "Namespace" or _is_namespaced(item)]
    for item in doubles:
        metadata = item["metadata"]
        field = "name" if item["kind"] == "Namespace" else "namespace"
        metadata[field] = metadata.get(field, "default") + _DOUBLE
        if "uid" in metadata:
            metadata["uid"] += _DOUBLE
    if rng.chance(0.7):
        # Else the order of victims that are alike is left to chance where a node has many.
        _start_later(doubles)
    draft["objects"] += doubles
    if rng.chance(0.3):
        draft["pod"]["metadata"]["namespace"] = draft["pod"]["metadata"].get("namespace", "default") + _DOUBLE


def _start_later(items: Sequence[Item]) -> None:
    """Let pods start seconds later than on the minute, as all pods that generators make do."""
    for item in items:
        status = item.get("status", {})
        if "startTime" in status:
            status["startTime"] = status["startTime"].replace(":00Z", ":30Z")


_CLUSTER_SCOPED = {"Node", "Namespace", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "PriorityClass"}


def _is_namespaced(item: Item) -> bool:
    return item["kind"] not in _CLUSTER_SCOPED


def _double_elements(draft: Item, rng: Source) -> None:
    """Double elements of lists anywhere in the pod and the objects."""
    lists = [*_lists_of(draft["pod"])] * 3
    for item in draft["objects"]:
        lists += _lists_of(item)
    for found in rng.some(range(len(lists)), 1, 12):
        elements = lists[found]
        elements.insert(rng.randint(0, len(elements)), copy.deepcopy(rng.choice(elements)))


def _lists_of(value: Any) -> Iterator[list[Any]]:
    """Yield all lists with elements within a value."""
    if isinstance(value, dict):
        for each in value.values():
            yield from _lists_of(each)
    elif isinstance(value, list) and value:
        yield value
        for each in value:
            yield from _lists_of(each)


DERIVATIONS: dict[str, Callable[[Item, Source], None]] = {
    "swapped": _swap_fields,
    "elsewhere": _double_namespaces,
    "doubled": _double_elements,
}

"""How much everything holds that an object refers to, found without knowing what there is."""

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

# What the names of arrays end with.
ARRAY = "(array)"

_PACKAGE = "extender_service."


def container_sizes(name: str, root: object) -> Counter[str]:
    """The entries of all containers that an object of the service refers to, by the way there.

    What is on the way from the elements of a container counts together: `x._columns[].values` are the values of all
    columns. Every object is looked at once, by the shortest way there, which stays the same from one time to the next.
    """
    sizes: Counter[str] = Counter()
    seen: set[int] = set()
    left: deque[tuple[str, object]] = deque([(name, root)])
    kept: list[object] = []  # so that no id is given to another object meanwhile
    while left:
        path, item = left.popleft()
        if id(item) in seen:
            continue
        seen.add(id(item))
        kept.append(item)
        if isinstance(item, np.ndarray):
            sizes[f"{path} {ARRAY}"] += item.size
        elif isinstance(item, Mapping | list | tuple | set | frozenset | deque):
            if not isinstance(item, tuple | frozenset):
                sizes[path] += len(item)
            values = item.values() if isinstance(item, Mapping) else item
            left += [(f"{path}[]", value) for value in values]
        elif type(item).__module__.startswith(_PACKAGE):
            left += [(f"{path}.{attribute}", value) for attribute, value in _attributes(item)]
    return sizes


def _attributes(item: Any) -> Iterator[tuple[str, object]]:
    names = [name for kind in type(item).__mro__ for name in getattr(kind, "__slots__", ())]
    names += getattr(item, "__struct_fields__", ())
    names += getattr(item, "__dict__", ())
    for name in dict.fromkeys(names):
        if hasattr(item, name):
            yield name, getattr(item, name)

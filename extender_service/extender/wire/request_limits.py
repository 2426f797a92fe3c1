"""Limits of requests: refuses what no real cluster sends before it takes time and memory.

A pod that an API server accepts has 3 MiB at most, and scheduling reads a few KB of it. The time and memory that
plugins and caches take for a pod grow with the number of items in it.
"""

from collections.abc import Collection, Mapping

import msgspec
import numpy as np
from msgspec import structs

from extender_service.caches import cached
from extender_service.kube.parsing.decoder import DecodeError
from extender_service.kube.types.core import Pod

# A body with no more bytes than this, without the names of nodes, is not checked closely.
ORDINARY_BYTES = 16 << 10
# A larger body is checked before it is decoded.
LARGE_BODY_BYTES = 1 << 20

# Bytes of JSON for all fields of a pod that scheduling reads, and items of a list or map in it.
MOST_POD_BYTES = 512 << 10
MOST_ITEMS = 1_000
MOST_SELECTOR_VALUES = 10_000
MOST_RESOURCES = 100
MOST_NODES = 50_000
LONGEST_NAME = 253

# Bytes before decoding, of a pod or node and of the names of nodes. Other arguments may fill the body.
MOST_OBJECT_BYTES = 4 << 20
MOST_NAMES_BYTES = 4 << 20
_MOST_BYTES = {"pod": MOST_OBJECT_BYTES, "nodenames": MOST_NAMES_BYTES}
# JSON values in a body. 15,000 whole nodes have 6 million. A decoded value takes about 70 bytes.
_MOST_VALUES = 8_000_000
_FEWEST_BYTES_OF_MOST_VALUES = 2 * _MOST_VALUES
# Bytes per chunk, so that NumPy's intermediate arrays stay in the processor's caches.
_CHUNK_BYTES = 256 << 10

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def require_few_values(body: bytes | bytearray) -> None:
    """Raise DecodeError if a body has so many values that decoding it would take too much memory."""
    if len(body) < _FEWEST_BYTES_OF_MOST_VALUES:
        return
    characters = np.frombuffer(body, np.uint8)
    starts = range(0, len(body), _CHUNK_BYTES)
    values = sum(np.count_nonzero(characters[start : start + _CHUNK_BYTES] == ord(",")) for start in starts)
    if values > _MOST_VALUES:
        raise DecodeError(f"the body has {values} values, of which {_MOST_VALUES} are the most")


def require_moderate_arguments(body: bytes | bytearray) -> None:
    """Raise DecodeError if one of the arguments in a large body is too large; the text names it.

    Raises msgspec's errors for a body that is not a JSON object.
    """
    require_few_values(body)
    for name, value in _members.decode(body).items():
        require_moderate_argument(name, value, _MOST_BYTES.get(name.lower(), len(body)))


def require_moderate_argument(name: str, value: msgspec.Raw, most: int) -> None:
    """Raise DecodeError if an argument, or a part of one, has too many bytes."""
    size = memoryview(value).nbytes
    if size > most:
        raise DecodeError(f"{name} has {size} bytes, of which {most} are the most")


def require_moderate_pod(pod: Pod) -> None:
    """Raise DecodeError if a pod has too much in it; the text names the field."""
    if len(msgspec.json.encode(pod)) > MOST_POD_BYTES:
        sizes = {
            f"{part}.{name}": len(msgspec.json.encode(value))
            for part in ("metadata", "spec")
            for name, value in _fields(getattr(pod, part)).items()
        }
        largest = max(sizes, key=lambda field: sizes[field])
        raise DecodeError(
            f"Pod.{largest} has {sizes[largest]} bytes; {MOST_POD_BYTES} are the most for all that scheduling reads"
        )
    _require_few_items("Pod", pod)
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    resources = len({name for container in containers for name in container.resources.requests})
    if resources > MOST_RESOURCES:
        raise DecodeError(f"Pod.spec.containers request {resources} resources, of which {MOST_RESOURCES} are the most")


def _require_few_items(path: str, value: object) -> None:
    if isinstance(value, msgspec.Struct):
        for name, member in _fields(value).items():
            _require_few_items(f"{path}.{name}", member)
    elif isinstance(value, tuple):
        _require_few(path, value, MOST_SELECTOR_VALUES if path.endswith(".values") else MOST_ITEMS)
        for index, element in enumerate(value):
            _require_few_items(f"{path}[{index}]", element)
    elif isinstance(value, Mapping):
        _require_few(path, value, MOST_ITEMS)


def _require_few(path: str, value: Collection[object], most: int) -> None:
    if len(value) > most:
        raise DecodeError(f"{path} has {len(value)} items, of which {most} are the most")


def _fields(value: msgspec.Struct) -> dict[str, object]:
    """Return the fields that are set, by their names in JSON."""
    return {name: field for attribute, name in _names(type(value)) if (field := getattr(value, attribute))}


@cached("fields of types", most_entries=256, most_entry_bytes=4 << 10, most_size=None)
def _names(kind: type[msgspec.Struct]) -> list[tuple[str, str]]:
    return [(field.name, field.encode_name) for field in structs.fields(kind)]

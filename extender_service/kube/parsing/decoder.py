"""Typed JSON of Kubernetes objects, read as Go's decoder reads it.

Go writes null for a nil list or map and for a zero time. The first attempt decodes strictly and fast, and refuses most
nulls. If it fails, a second, slow attempt replaces each null by the zero value of its type.

Go reads 10,000 levels of lists and objects, and the API server keeps as many in metadata.managedFields, which any user
may write. msgspec recurses, also where it skips a field, and reads some 900 in Python 3.11. Scheduling reads nothing
that is nested so deeply. So JSON that is too deep for msgspec is decoded without its deep values.
"""

from functools import cached_property
from typing import Any, Final, Generic, TypeVar

import msgspec
import numpy as np
from msgspec import inspect

T = TypeVar("T")

_NULL = msgspec.Raw(b"null")
# The zero values for nulls in lists and maps: leaving out such an entry would change the value. Unions are quantities.
_ZERO_VALUES: dict[type[inspect.Type], object] = {inspect.StrType: "", inspect.StructType: {}, inspect.UnionType: 0}

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_elements = msgspec.json.Decoder(list[msgspec.Raw])

# What the API server sends has some levels around the 10,000 of an object.
_MOST_LEVELS: Final = 10_100
_KEPT_LEVELS: Final = 200
# A page of a list has no more.
_MOST_BYTES: Final = 32 << 20
# So that NumPy's intermediate arrays stay in the processor's caches.
_CHUNK_BYTES: Final = 128 << 10
_TOO_DEEP: Final = "the input is nested too deeply"


class DecodeError(ValueError):
    """Input that is not JSON, or not of the expected type. The text names the field and the type expected there."""


class Decoder(Generic[T]):
    """Decodes JSON to one type. Make one per type and keep it: construction is slow."""

    def __init__(self, object_type: type[T]) -> None:
        self._object_type = object_type
        self._json = msgspec.json.Decoder(object_type)

    def decode(self, data: bytes | bytearray | msgspec.Raw) -> T:
        """Decode one JSON value. Skips fields that the type does not have. Null is the zero value.

        Raises DecodeError.
        """
        try:
            try:
                return self._json.decode(data)
            except msgspec.ValidationError:
                value = _without_nulls(msgspec.Raw(data), self._type_info)
                return self._json.decode(msgspec.json.encode(value))
        except RecursionError:
            return self.decode(without_deep_values(data))
        except UnicodeDecodeError as error:
            raise DecodeError("the input is not UTF-8") from error
        except msgspec.DecodeError as error:
            raise DecodeError(str(error)) from error

    @cached_property
    def _type_info(self) -> inspect.Type:
        return inspect.type_info(self._object_type)


def without_deep_values(data: bytes | bytearray | msgspec.Raw) -> bytes:
    """Return JSON that is too deep for msgspec with the lists and objects at level 200 empty.

    What was in them need not have been JSON. Raises DecodeError if it had more than 10,000 levels, if there are too
    many bytes to look at, or if nothing is left out.
    """
    json = bytes(data)
    if len(json) > _MOST_BYTES:
        raise DecodeError(_TOO_DEEP)
    # The same without escaped quotes, so that each quote that is left begins or ends a string.
    structure = json.replace(rb"\\", b"__").replace(rb"\"", b"__")
    characters = np.frombuffer(json, np.uint8)
    structural = np.frombuffer(structure, np.uint8)
    kept: list[bytes] = []
    level = quotes_before = 0
    for start in range(0, len(json), _CHUNK_BYTES):
        chunk = structural[start : start + _CHUNK_BYTES]
        quotes = np.cumsum(chunk == ord('"'), dtype=np.uint8) + np.uint8(quotes_before)  # modulo 256: odd in a string
        is_outside = (quotes & 1) == 0
        brackets = chunk | 0x20  # as braces, which have one more bit
        opens, closes = (brackets == ord("{")) & is_outside, (brackets == ord("}")) & is_outside
        steps = opens.view(np.int8) - closes.view(np.int8)
        levels = np.cumsum(steps, dtype=np.int32) + level
        if levels.max() > _MOST_LEVELS:
            raise DecodeError(_TOO_DEEP)
        # A bracket is at the lower of the levels on its two sides.
        is_kept = np.minimum(levels, levels - steps) < _KEPT_LEVELS
        kept.append(characters[start : start + _CHUNK_BYTES][is_kept].tobytes())
        level, quotes_before = int(levels[-1]), int(quotes[-1]) & 1
    shallow = b"".join(kept)
    if len(shallow) == len(json):
        raise DecodeError(_TOO_DEEP)
    return shallow


def _without_nulls(value: msgspec.Raw, kind: inspect.Type) -> Any:
    """Leave out null fields, which gives them their defaults, and unknown ones. Replace other nulls by zero values.

    A value that does not match its type stays unchanged, and so does a scalar. If one of them is wrong, the decoder
    reports it with the field's name.
    """
    if isinstance(kind, inspect.UnionType):
        members = [member for member in kind.types if not isinstance(member, inspect.NoneType)]
        kind = members[0] if len(members) == 1 else kind
    try:
        match kind:
            case inspect.StructType():
                kinds = {field.encode_name: field.type for field in kind.fields}
                present = {name: raw for name, raw in _members.decode(value).items() if name in kinds and raw != _NULL}
                return {name: _without_nulls(raw, kinds[name]) for name, raw in present.items()}
            case inspect.DictType():
                value_type = kind.value_type
                return {key: _element_without_nulls(raw, value_type) for key, raw in _members.decode(value).items()}
            case inspect.VarTupleType() | inspect.ListType():
                return [_element_without_nulls(raw, kind.item_type) for raw in _elements.decode(value)]
    except msgspec.ValidationError:
        pass
    return value


def _element_without_nulls(value: msgspec.Raw, kind: inspect.Type) -> Any:
    return _ZERO_VALUES.get(type(kind)) if value == _NULL else _without_nulls(value, kind)

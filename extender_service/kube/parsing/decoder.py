"""Typed JSON of Kubernetes objects, read as Go's decoder reads it.

Go writes null for a nil list or map and for a zero time. The first attempt decodes strictly and fast, and refuses most
nulls. If it fails, a second, slow attempt replaces each null by the zero value of its type.
"""

from functools import cached_property
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import inspect

T = TypeVar("T")

_NULL = msgspec.Raw(b"null")
# The zero values for nulls in lists and maps: leaving out such an entry would change the value. Unions are quantities.
_ZERO_VALUES: dict[type[inspect.Type], object] = {inspect.StrType: "", inspect.StructType: {}, inspect.UnionType: 0}

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_elements = msgspec.json.Decoder(list[msgspec.Raw])


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
        except RecursionError as error:
            raise DecodeError("the input is nested too deeply") from error
        except UnicodeDecodeError as error:
            raise DecodeError("the input is not UTF-8") from error
        except msgspec.DecodeError as error:
            raise DecodeError(str(error)) from error

    @cached_property
    def _type_info(self) -> inspect.Type:
        return inspect.type_info(self._object_type)


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

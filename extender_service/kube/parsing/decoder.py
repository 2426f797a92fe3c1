"""Typed JSON of Kubernetes objects, read as Go's decoder reads it.

Go prints null for an absent list, map or time. Decoding is strict and fast for input without nulls; only where that
fails, the input is read a second time, slowly, with each null taken for the zero value of its type.
"""

from functools import cached_property
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import inspect

T = TypeVar("T")

_NULL = msgspec.Raw(b"null")
# What null counts as where it cannot be left out: in a list, or as a value of a map. Unions are quantities.
_ZERO_VALUES: dict[type[inspect.Type], object] = {inspect.StrType: "", inspect.StructType: {}, inspect.UnionType: 0}

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_elements = msgspec.json.Decoder(list[msgspec.Raw])


class DecodeError(ValueError):
    """Input that is not JSON, or not of the type asked for; the text names the field and what was expected there."""


class Decoder(Generic[T]):
    """Decodes JSON to one type; made once per type and used often."""

    def __init__(self, object_type: type[T]) -> None:
        self._object_type = object_type
        self._json = msgspec.json.Decoder(object_type)

    def decode(self, data: bytes | bytearray | msgspec.Raw) -> T:
        """Decode one JSON value; fields that the type does not have are skipped, null is the zero value.

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
    """Leave out null fields, which gives them their defaults, and unknown ones; replace other nulls by zero values.

    What has another form than its type stays as it is, and so does what has no fields or elements of its own: whatever
    is wrong with it, the decoder will tell with the field's name.
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

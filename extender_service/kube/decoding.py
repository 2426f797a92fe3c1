"""Typed JSON of Kubernetes objects, read as Go's decoder reads it.

Go prints null for an absent list, map or time. Decoding is strict and fast for input without nulls; only where that
fails, the input is read a second time, slowly, with each null taken for the zero value of its type.
"""

from functools import cached_property
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import inspect

T = TypeVar("T")

# What null counts as where it cannot be left out: in a list, or as a value of a map. Unions are quantities.
_ZERO_VALUES: dict[type[inspect.Type], object] = {inspect.StrType: "", inspect.StructType: {}, inspect.UnionType: 0}


class DecodeError(ValueError):
    """Input that is not JSON, or not of the type asked for; the text names the field and what was expected there."""


class Decoder(Generic[T]):
    """Decodes JSON to one type; made once per type and used often."""

    def __init__(self, object_type: type[T]) -> None:
        self._object_type = object_type
        self._json = msgspec.json.Decoder(object_type)

    def decode(self, data: bytes | msgspec.Raw) -> T:
        """Decode one JSON value; fields that the type does not have are skipped, null is the zero value.

        Raises DecodeError.
        """
        try:
            try:
                return self._json.decode(data)
            except msgspec.ValidationError:
                value = _without_nulls(msgspec.json.decode(data), self._type_info)
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


def _without_nulls(value: Any, kind: inspect.Type) -> Any:
    """Leave out null fields, which gives them their defaults, and unknown ones; replace other nulls by zero values."""
    if isinstance(kind, inspect.UnionType):
        members = [member for member in kind.types if not isinstance(member, inspect.NoneType)]
        kind = members[0] if len(members) == 1 else kind
    match kind, value:
        case inspect.StructType(), dict():
            kinds = {field.encode_name: field.type for field in kind.fields}
            present = {name: field for name, field in value.items() if field is not None and name in kinds}
            return {name: _without_nulls(field, kinds[name]) for name, field in present.items()}
        case inspect.DictType(), dict():
            return {key: _element_without_nulls(element, kind.value_type) for key, element in value.items()}
        case inspect.VarTupleType() | inspect.ListType(), list():
            return [_element_without_nulls(element, kind.item_type) for element in value]
    return value


def _element_without_nulls(value: Any, kind: inspect.Type) -> Any:
    return _ZERO_VALUES.get(type(kind)) if value is None else _without_nulls(value, kind)

"""Objects of Kubernetes' API in a configuration: read as strictly as the rest of it, held as the types of kube/types.

Those types skip unknown fields and report one error at a time. So a `Model` with the same fields, made from the type,
reads and prints the object. This suits types that have every field of the API, as NodeAffinity does.
"""

from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import inspect
from pydantic import Field, GetCoreSchemaHandler, create_model
from pydantic_core import CoreSchema, core_schema

from extender_service.config.model import Many, Model, OmitEmpty, OmitMissing
from extender_service.kube.types.core import Object

T = TypeVar("T", bound=Object)

# v1.NodeSelector's list, the only one here without Go's `omitempty`.
_PRINTED_EMPTY = "nodeSelectorTerms"


class _Strictly:
    """Reads and prints the annotated type by its `Model`."""

    @staticmethod
    def __get_pydantic_core_schema__(kind: type[Object], _handler: GetCoreSchemaHandler) -> CoreSchema:
        model = _model(kind)

        def read(value: object) -> Object:
            if isinstance(value, kind):
                return value
            written = model.model_validate(value, by_name=False)
            return msgspec.convert(written.model_dump(by_alias=True), kind)

        def shown(value: Object) -> dict[str, Any]:
            return model.model_validate(msgspec.to_builtins(value)).model_dump(by_alias=True)

        serialization = core_schema.plain_serializer_function_ser_schema(shown)
        return core_schema.no_info_plain_validator_function(read, serialization=serialization)


# A field of a configuration: `StrictObject[NodeAffinity]` is a NodeAffinity of kube/types in Python.
StrictObject = Annotated[T, _Strictly]


@cache
def _model(kind: type[Object]) -> type[Model]:
    """Return a model with the fields of a type, all of which have defaults."""
    empty = kind()
    struct = inspect.type_info(kind)
    assert isinstance(struct, inspect.StructType)
    fields: dict[str, Any] = {}
    for field in struct.fields:
        annotation, default = _annotation(field.type), getattr(empty, field.name)
        if isinstance(default, tuple | dict) and field.encode_name != _PRINTED_EMPTY:
            annotation = Annotated[annotation, OmitEmpty]
        if isinstance(default, Object):
            default = _model(type(default))()
        fields[field.name] = (annotation, Field(default=default, alias=field.encode_name))
    return create_model(kind.__name__, __base__=Model, **fields)


def _annotation(of: inspect.Type) -> Any:
    match of:
        case inspect.StructType():
            return _model(of.cls)
        case inspect.VarTupleType():
            return Many[_annotation(of.item_type)]  # type: ignore[misc]
        case inspect.DictType(inspect.StrType(), inspect.StrType()):
            return dict[str, str]
        case inspect.UnionType((value, inspect.NoneType())):
            return Annotated[_annotation(value) | None, OmitMissing]
        case inspect.IntType():
            return Annotated[int, Field(ge=of.ge, le=of.le)]
        case inspect.StrType():
            return str
    raise TypeError(f"a configuration cannot hold {of}")

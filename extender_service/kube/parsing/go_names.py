"""Field names as Go reads them: in any case."""

import msgspec
from msgspec import inspect

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_elements = msgspec.json.Decoder(list[msgspec.Raw])

_HAVE_FIELDS = (inspect.StructType, inspect.DictType, inspect.ListType, inspect.UnionType)


def with_go_names(raw: msgspec.Raw, kind: inspect.Type, base: type[msgspec.Struct]) -> object:
    """Rename the fields of objects whose types derive from `base` to Go's spelling, and leave out unknown ones.

    The result is to be encoded again. Objects of other types within stay as they are. Raises UnicodeDecodeError.
    """
    if isinstance(kind, inspect.UnionType):
        kind = kind.types[0]  # the other is None
    try:
        match kind:
            case inspect.StructType() if issubclass(kind.cls, base):
                fields = {field.encode_name.lower(): field for field in kind.fields}
                known = [
                    (fields[name.lower()], member)
                    for name, member in _members.decode(raw).items()
                    if name.lower() in fields
                ]
                return {field.encode_name: with_go_names(member, field.type, base) for field, member in known}
            case inspect.DictType() if isinstance(kind.value_type, _HAVE_FIELDS):
                return {
                    key: with_go_names(member, kind.value_type, base) for key, member in _members.decode(raw).items()
                }
            case inspect.ListType() if isinstance(kind.item_type, _HAVE_FIELDS):
                return [with_go_names(element, kind.item_type, base) for element in _elements.decode(raw)]
    except msgspec.ValidationError:
        pass  # null, which counts as absent, or the wrong type, which decoding reports with the field's name
    return raw

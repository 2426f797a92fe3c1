"""Decodes the arguments of verbs, and words errors for kube-scheduler.

Go accepts field names in any case; so does this decoder.
"""

from contextlib import suppress
from typing import Generic, TypeVar

import msgspec
from msgspec import inspect

from extender_service.extender.wire.request_limits import LARGE_BODY_BYTES, require_moderate_arguments
from extender_service.kube.parsing.decoder import DecodeError, Decoder
from extender_service.kube.types.extender_api import Args

# The message of an event has 1 KB at most.
_MOST_ERROR_CHARACTERS = 4000

A = TypeVar("A", bound=Args)

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_elements = msgspec.json.Decoder(list[msgspec.Raw])


class ArgsDecoder(Generic[A]):
    """Decodes the arguments of a verb, with field names in any case; those of the objects within are as in the API."""

    def __init__(self, args_type: type[A]) -> None:
        self._decoder = Decoder(args_type)
        self._type_info = inspect.type_info(args_type)

    def decode(self, body: bytes | bytearray) -> A:
        """Decode a request body. Raises DecodeError that names the field."""
        if len(body) > LARGE_BODY_BYTES:
            with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # the decoder words these better
                require_moderate_arguments(body)
        args = self._decoder.decode(body)
        if args.is_complete:
            return args
        try:
            named = _with_go_names(msgspec.Raw(body), self._type_info)
        except UnicodeDecodeError as error:
            raise DecodeError("the body is not UTF-8") from error
        return self._decoder.decode(msgspec.json.encode(named))


def _with_go_names(raw: msgspec.Raw, kind: inspect.Type) -> object:
    """Rename the fields of arguments to Go's spelling, and leave out unknown ones."""
    if isinstance(kind, inspect.UnionType):
        kind = kind.types[0]  # the other is None
    try:
        match kind:
            case inspect.StructType() if issubclass(kind.cls, Args):
                fields = {field.encode_name.lower(): field for field in kind.fields}
                known = [
                    (fields[name.lower()], member)
                    for name, member in _members.decode(raw).items()
                    if name.lower() in fields
                ]
                return {field.encode_name: _with_go_names(member, field.type) for field, member in known}
            case inspect.DictType():
                return {key: _with_go_names(member, kind.value_type) for key, member in _members.decode(raw).items()}
            case inspect.ListType():
                return [_with_go_names(element, kind.item_type) for element in _elements.decode(raw)]
    except msgspec.ValidationError:
        pass  # null, which counts as absent, or the wrong type, which decoding reports with the field's name
    return raw


def error_text(message: str) -> str:
    """Make a message fit for an Error field, which kube-scheduler uses as a format string, and for an event of the pod.

    A message that is too long for an event is cut: it may quote any text of the pod.
    """
    if len(message) > _MOST_ERROR_CHARACTERS:
        message = f"{message[:_MOST_ERROR_CHARACTERS]}… ({len(message) - _MOST_ERROR_CHARACTERS} more characters)"
    return message.replace("%", "(percent)")

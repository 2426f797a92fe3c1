"""Decodes the arguments of verbs, and words errors for kube-scheduler.

Go accepts field names in any case; so does this decoder.
"""

from contextlib import suppress
from typing import Generic, TypeVar

import msgspec
from msgspec import inspect

from extender_service.extender.wire.request_limits import LARGE_BODY_BYTES, require_moderate_arguments
from extender_service.kube.parsing.decoder import DecodeError, Decoder, without_deep_values
from extender_service.kube.parsing.go_names import with_go_names
from extender_service.kube.types.extender_api import Args

# The message of an event has 1 KB at most.
_MOST_ERROR_CHARACTERS = 4000

A = TypeVar("A", bound=Args)


class ArgsDecoder(Generic[A]):
    """Decodes the arguments of a verb, with field names in any case; those of the objects within are as in the API."""

    def __init__(self, args_type: type[A]) -> None:
        self._decoder = Decoder(args_type)
        self._type_info = inspect.type_info(args_type)

    def decode(self, body: bytes | bytearray) -> A:
        """Decode a request body. Raises DecodeError that names the field."""
        try:
            if len(body) > LARGE_BODY_BYTES:
                with suppress(msgspec.DecodeError, UnicodeDecodeError):  # the decoder words these better
                    require_moderate_arguments(body)
            args = self._decoder.decode(body)
            if args.is_complete:
                return args
            named = with_go_names(msgspec.Raw(body), self._type_info, Args)
        except RecursionError:
            return self.decode(without_deep_values(body))
        except UnicodeDecodeError as error:
            raise DecodeError("the body is not UTF-8") from error
        return self._decoder.decode(msgspec.json.encode(named))


def error_text(message: str) -> str:
    """Make a message fit for an Error field, which kube-scheduler uses as a format string, and for an event of the pod.

    A message that is too long for an event is cut: it may quote any text of the pod.
    """
    if len(message) > _MOST_ERROR_CHARACTERS:
        message = f"{message[:_MOST_ERROR_CHARACTERS]}… ({len(message) - _MOST_ERROR_CHARACTERS} more characters)"
    return message.replace("%", "(percent)")

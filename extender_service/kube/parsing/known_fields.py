"""Finds misspelled fields in manifests, such as `lables`.

The decoder skips fields that scheduling does not read, so it would also skip misspelled ones. known_fields.json lists
all fields of Kubernetes' own types (`python -m tests.known_fields` writes it).
"""

import difflib
import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Raw

from extender_service.kube.parsing.decoder import DecodeError, Decoder

TABLE = Path(__file__).with_name("known_fields.json")
# At most so many objects of a kind are checked in a file; a file written by hand has fewer. The check adds a fifth to
# the time for reading an object. That is too slow for a dump by kubectl of a cluster with 150,000 pods.
MOST_CHECKED = 5_000
LIST = ("meta/v1", "List")

T = TypeVar("T")

_POSITION = re.compile(r"\[\d+\]")
_members = Decoder(dict[str, Raw])
_elements = Decoder(list[Raw])


class UnknownField(NamedTuple):
    """A field that Kubernetes does not have: its first place in a file, and the most similar name, if there is one."""

    place: str
    subject: str
    path: str
    suggestion: str | None


class FieldCheck:
    """Collects the unknown fields in the objects of one file.

    Reports a field once per kind, also if it is in several elements of a list: `containers[0].imag` and
    `containers[1].imag` are one.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], UnknownField] = {}
        self._checked: Counter[str] = Counter()

    @property
    def found(self) -> list[UnknownField]:
        """The unknown fields, in the order of the file."""
        return list(self._found.values())

    def check(self, source: Raw, api_version: str, kind: str, *, place: str, subject: str) -> None:
        """Check one object. `place` and `subject` identify it in the UnknownField."""
        struct = struct_of(api_version, kind)
        self._checked[struct] += 1
        if self._checked[struct] > MOST_CHECKED:
            return
        for path, name, holder in _unknown_fields(source, struct):
            key = (struct, _POSITION.sub("[]", path))
            if key not in self._found:
                self._found[key] = UnknownField(place, subject, path, _closest(name, holder))


def struct_of(api_version: str, kind: str) -> str:
    """Return the Go struct of a kind: core/v1.Pod for v1, storage/v1.CSINode for storage.k8s.io/v1."""
    group, _, version = api_version.rpartition("/")
    return f"{group.removesuffix('.k8s.io') or 'core'}/{version}.{kind}"


def _unknown_fields(source: Raw, struct: str) -> Iterator[tuple[str, str, str]]:
    """Yield the path of each unknown field, its name, and the struct that lacks it."""
    try:
        _strict_decoder(struct).decode(source)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Either a field is unknown, or strict decoding refused what the decoder accepts, such as null in a list.
        yield from _walk(source, struct, "")


def _walk(source: Raw, struct: str, path: str) -> Iterator[tuple[str, str, str]]:
    fields = _table()[struct]
    for name, inner in _decoded(_members, source, {}).items():
        here = f"{path}.{name}" if path else name
        inner_struct = fields.get(name)
        if inner_struct is None:
            yield here, name, struct
        elif inner_struct.startswith("[]"):
            elements = _decoded(_elements, inner, [])
            for index, element in enumerate(elements):
                yield from _walk(element, inner_struct[2:], f"{here}[{index}]")
        elif inner_struct:
            yield from _walk(inner, inner_struct, here)


def _decoded(decoder: Decoder[T], source: Raw, otherwise: T) -> T:
    try:
        return decoder.decode(source)
    except DecodeError:
        # Null, or not of this type. If scheduling reads the field, decoding the object has failed before.
        return otherwise


def _closest(name: str, struct: str) -> str | None:
    return next(iter(difflib.get_close_matches(name, _table()[struct], n=1)), None)


@cache
def _table() -> dict[str, dict[str, str]]:
    """The fields of each Go struct with their types: a struct's NAME, []NAME for a list of it, empty for no struct."""
    table: dict[str, dict[str, str]] = json.loads(TABLE.read_text())
    return table


@cache
def _strict_decoder(struct: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_strict_type(struct))


@cache
def _strict_type(struct: str) -> Any:
    """A msgspec type that has all fields of a struct and refuses others: decoding to it is a fast check."""
    fields = [(name, _strict_field(inner), None) for name, inner in _table()[struct].items()]
    return msgspec.defstruct(struct.rpartition(".")[2], fields, forbid_unknown_fields=True, gc=False)


def _strict_field(struct: str) -> Any:
    if not struct:
        return Raw
    if struct.startswith("[]"):
        return list[_strict_type(struct[2:])] | None  # type: ignore[misc]
    return _strict_type(struct) | None

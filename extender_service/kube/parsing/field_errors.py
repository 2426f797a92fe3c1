"""The texts of field errors, as in apimachinery's util/validation/field.

An error is kept as what it is about, since later releases describe the same error in other words. Parsed objects are
shared by all of them.
"""

import json
from collections.abc import Iterable

import msgspec

from extender_service.kube.parsing.label_syntax import Wording, label_key_faults, quoted

# Go's encoder writes these so that JSON may stand in HTML and in JavaScript.
_JSON_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


class InvalidValue(msgspec.Struct, frozen=True, gc=False):
    """A string or a []string at `path` that breaks a rule, which `detail` states (field.Invalid)."""

    path: str
    value: str | tuple[str, ...]
    detail: str

    def text(self, wording: Wording) -> str:
        """Describe the error."""
        return f"{self.path}: Invalid value: {_shown(self.value, wording)}: {self.detail}"


class InvalidLabelKey(msgspec.Struct, frozen=True, gc=False):
    """A label's key at `path` of the wrong form (field.Invalid)."""

    path: str
    key: str

    def text(self, wording: Wording) -> str:
        """Describe the error."""
        detail = "; ".join(label_key_faults(self.key, wording))
        return f"{self.path}: Invalid value: {quoted(self.key)}: {detail}"


class UnsupportedValue(msgspec.Struct, frozen=True, gc=False):
    """A string at `path` that is not one of those supported (field.NotSupported)."""

    path: str
    value: str
    supported: tuple[str, ...]

    def text(self, wording: Wording) -> str:
        """Describe the error; all releases do so alike."""
        del wording
        supported = ", ".join(map(quoted, self.supported))
        return f"{self.path}: Unsupported value: {quoted(self.value)}: supported values: {supported}"


class UnknownOperator(msgspec.Struct, frozen=True, gc=False):
    """An operator that label selectors do not have; the error names no field."""

    operator: str

    def text(self, wording: Wording) -> str:
        """Describe the error; all releases do so alike."""
        del wording
        return f"{quoted(self.operator)} is not a valid label selector operator"


FieldError = InvalidValue | InvalidLabelKey | UnsupportedValue | UnknownOperator


def described(errors: Iterable[FieldError], wording: Wording) -> str:
    """Return the text of all errors together; empty for no error."""
    return aggregate(error.text(wording) for error in errors)


def child(path: str, name: str) -> str:
    """Return the path of a field (field.Path.Child); the `path` of the root is empty."""
    return f"{path}.{name}" if path else name


def aggregate(texts: Iterable[str]) -> str:
    """Join texts of errors to one without duplicates, as errors.Aggregate prints them; empty for no error."""
    distinct = list(dict.fromkeys(texts))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""


def _shown(value: str | tuple[str, ...], wording: Wording) -> str:
    if isinstance(value, str):
        return quoted(value)
    if wording.values_as_json:
        return json.dumps(value or None, ensure_ascii=False, separators=(",", ":")).translate(_JSON_ESCAPES)
    return f"[]string{{{', '.join(map(quoted, value))}}}" if value else "[]string(nil)"

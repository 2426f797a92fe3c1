"""Label syntax, and what is wrong with a key or value, as in apimachinery's util/validation.

The texts are Kubernetes' own to the letter: kube-scheduler's messages contain them, and users search for them.
"""

import re
from typing import NamedTuple

_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = rf"({_NAME})?"
_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
_MOST_NAME_BYTES = 63
_MOST_SUBDOMAIN_BYTES = 253

_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)
_LABEL_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_LABEL_VALUE}')"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_name_syntax = re.compile(_NAME)
_label_value_syntax = re.compile(_LABEL_VALUE)
_subdomain_syntax = re.compile(_SUBDOMAIN)

_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
_ESCAPES |= {'"': '\\"', "\\": "\\\\"}


class Wording(NamedTuple):
    """In which words errors are described: the defaults are v1.31.1's. `config.rules.Rules` has those of a release."""

    values_as_json: bool = False
    label_keys_by_name: bool = False


V1_31 = Wording()


def label_key_faults(key: str, wording: Wording = V1_31) -> list[str]:
    """Return the errors of a label's key (validation.IsQualifiedName); none for a valid key."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        what = "a valid label key" if wording.label_keys_by_name else "a qualified name"
        return [f"{what} {_NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    faults = []
    if slash and not prefix:
        faults.append("prefix part must be non-empty")
    elif slash:
        if len(prefix.encode()) > _MOST_SUBDOMAIN_BYTES:
            faults.append(f"prefix part must be no more than {_MOST_SUBDOMAIN_BYTES} characters")
        if not _subdomain_syntax.fullmatch(prefix):
            faults.append(f"prefix part {_SUBDOMAIN_RULE}")
    if not name:
        faults.append("name part must be non-empty")
    elif len(name.encode()) > _MOST_NAME_BYTES:
        faults.append(f"name part must be no more than {_MOST_NAME_BYTES} characters")
    if not _name_syntax.fullmatch(name):
        faults.append(f"name part {_NAME_RULE}")
    return faults


def label_value_faults(value: str) -> list[str]:
    """Return the errors of a label's value (validation.IsValidLabelValue); none for a valid value."""
    faults = []
    if len(value.encode()) > _MOST_NAME_BYTES:
        faults.append(f"must be no more than {_MOST_NAME_BYTES} characters")
    if not _label_value_syntax.fullmatch(value):
        faults.append(_LABEL_VALUE_RULE)
    return faults


def quoted(text: str) -> str:
    """Return the text as Go's %q prints it."""
    return f'"{"".join(map(_quoted_character, text))}"'


def _quoted_character(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < ord(" ") or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

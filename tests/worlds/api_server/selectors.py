"""Label and field selectors as they stand in a query, and metav1.LabelSelector as it stands in an object."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.worlds.api_server.errors import bad_request
from tests.worlds.api_server.kinds import Kind

Object = dict[str, Any]
Matches = Callable[[Mapping[str, str]], bool]

_TERM = re.compile(r"\s*(!?[^\s!=,()]+)\s*(?:(==|!=|=)\s*([^\s,()]*)|(in|notin)\s*\(([^)]*)\))?\s*$")


def label_selector(text: str) -> Matches:
    """Return whether labels match a query's labelSelector; empty matches all. Raises RefusedError (400)."""
    terms = [_label_term(term) for term in _split(text)] if text else []
    return lambda labels: all(matches(labels) for matches in terms)


def _split(text: str) -> list[str]:
    """Split at the commas outside of parentheses."""
    return re.split(r",(?![^(]*\))", text)


def _label_term(text: str) -> Matches:
    found = _TERM.match(text)
    if found is None:
        words = text.split()
        what = words[1] if len(words) > 1 else text
        text = f"unable to parse requirement: found '{what}', expected: in, notin, =, ==, !=, gt, lt"
        raise bad_request(text)
    key, operator, value, word, listed = found.groups()
    values = {part.strip() for part in (listed or "").split(",")}
    if word == "in":
        return lambda labels: labels.get(key) in values
    if word == "notin":
        return lambda labels: labels.get(key) not in values
    if operator == "!=":
        return lambda labels: labels.get(key) != value
    if operator:
        return lambda labels: labels.get(key) == value
    if key.startswith("!"):
        return lambda labels: key[1:] not in labels
    return lambda labels: key in labels


def field_selector(kind: Kind, text: str) -> Callable[[Object], bool]:
    """Return whether an object matches a query's fieldSelector; empty matches all. Raises RefusedError (400)."""
    if not text:
        return lambda _: True
    fields = {
        "metadata.name": _name,
        **({"metadata.namespace": _namespace} if kind.is_namespaced else {}),
        **kind.fields,
    }
    terms = parse_fields(text)
    for key, _, _ in terms:
        if key not in fields:
            raise bad_request(f"field label not supported: {key}")
    read = [(fields[key], wanted, equal) for key, wanted, equal in terms]
    return lambda value: all((field(value) == wanted) is equal for field, wanted, equal in read)


def _name(value: Object) -> str:
    name: str = value["metadata"]["name"]
    return name


def _namespace(value: Object) -> str:
    namespace: str = value["metadata"].get("namespace", "")
    return namespace


def parse_fields(text: str) -> list[tuple[str, str, bool]]:
    """Return the terms of a fieldSelector: field, value, and whether it must be equal. Raises RefusedError (400)."""
    return [_field_term(term) for term in text.split(",") if term]


def _field_term(text: str) -> tuple[str, str, bool]:
    found = re.fullmatch(r"([^!=]+)(==|!=|=)(.*)", text)
    if found is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    key, operator, value = found.groups()
    return key, value, operator != "!="


def matches_selector(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """Return whether labels match a metav1.LabelSelector: null matches nothing, an empty one everything."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_expression(term, labels) for term in selector.get("matchExpressions") or ())


def _expression(term: Object, labels: Mapping[str, str]) -> bool:
    key, values = term["key"], term.get("values") or ()
    match term["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels

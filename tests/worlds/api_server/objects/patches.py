"""Patches: JSON merge (RFC 7386), and strategic merge (apimachinery's strategicpatch) for the fields of these kinds."""

from collections.abc import Callable
from typing import Any

import msgspec

from tests.worlds.api_server.errors import RefusedError, bad_request, json_error
from tests.worlds.api_server.messages import NotModelledError

Object = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
_OTHERS = ("application/json-patch+json", "application/apply-patch+yaml", "application/apply-patch+cbor")

# The first minor release that checks a patch before it looks for the object.
CHECKS_FIRST_SINCE = 37

# Lists that are merged by the value of a key, by field name; `ports` has another key in a Service. All other lists of
# objects are replaced whole.
_MERGE_KEYS = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "drivers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "hostIPs": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "ports": "containerPort",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
_PRIMITIVE_LISTS = frozenset({"finalizers"})


def check(content_type: str, body: bytes, minor: int) -> None:
    """Raise RefusedError (400, 415) or NotModelledError if a patch cannot be applied, whatever the object."""
    media_type = content_type.partition(";")[0].strip()
    if media_type in _OTHERS:
        raise NotModelledError(f"patches of type {media_type}")
    if media_type not in (MERGE, STRATEGIC):
        raise RefusedError(415, "UnsupportedMediaType", "415: Unsupported Media Type")
    if minor >= CHECKS_FIRST_SINCE:
        try:
            msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            raise bad_request("invalid JSON patch") from error


def apply(content_type: str, body: bytes, value: Object, kind: str) -> Object:
    """Return the object with the patch applied; `value` is changed. Raises RefusedError and NotModelledError."""
    try:
        patch = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding patch: {json_error(error)}") from error
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: it is not an object")
    if content_type.partition(";")[0].strip() == MERGE:
        return _merge(value, patch)
    return _strategic(value, patch, kind)


def _merge(value: Any, patch: Object) -> Object:
    result: Object = value if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            result.pop(key, None)
        elif isinstance(change, dict):
            result[key] = _merge(result.get(key), change)
        else:
            result[key] = change
    return result


def _strategic(value: Any, patch: Object, kind: str) -> Object:
    result: Object = value if isinstance(value, dict) else {}
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: change for key, change in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    for key, change in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.partition("/")[2]
            result[field] = [entry for entry in result.get(field) or () if entry not in change]
        elif key.startswith("$"):
            if key != "$patch" and not key.startswith("$setElementOrder/"):
                raise NotModelledError(f"the directive {key} of a strategic merge patch")
        elif change is None:
            result.pop(key, None)
        elif isinstance(change, dict):
            result[key] = _strategic(result.get(key), change, kind)
        elif isinstance(change, list):
            result[key] = _merge_list(key, result[key], change, kind) if result.get(key) else _plain(change)
        else:
            result[key] = change
    return result


def _merge_list(field: str, present: list[Any], patch: list[Any], kind: str) -> list[Any]:
    if field in _PRIMITIVE_LISTS:
        return _ordered(present, patch, [entry for entry in present if entry not in patch], lambda entry: entry)
    merge_key = "port" if (kind, field) == ("Service", "ports") else _MERGE_KEYS.get(field)
    if merge_key is None:
        return patch
    if any(entry.get("$patch") == "replace" for entry in patch):
        return [entry for entry in patch if "$patch" not in entry]
    result = list(present)
    for change in patch:
        if merge_key not in change:
            raise RefusedError(500, "", f"map: map{_go_map(change)} does not contain declared merge key: {merge_key}")
        index = next((i for i, entry in enumerate(result) if entry.get(merge_key) == change[merge_key]), None)
        if change.get("$patch") == "delete":
            if index is not None:
                del result[index]
        elif index is None:
            result.append(_strategic({}, change, kind))
        else:
            result[index] = _strategic(dict(result[index]), change, kind)
    patched = {change[merge_key] for change in patch}
    kept = [entry for entry in result if entry.get(merge_key) not in patched]
    by_key = {entry.get(merge_key): entry for entry in result}
    changed = [by_key[change[merge_key]] for change in patch if change[merge_key] in by_key]
    return _ordered(present, changed, kept, lambda entry: entry.get(merge_key))


def _ordered(present: list[Any], changed: list[Any], kept: list[Any], key: Callable[[Any], Any]) -> list[Any]:
    """Merge what a patch changes with what it keeps: each in its order, a kept one before a changed one that it was
    before (strategicpatch's mergeSortedSlice)."""
    places = {key(entry): index for index, entry in enumerate(present)}
    result: list[Any] = []
    rest = list(kept)
    for entry in changed:
        while rest and key(entry) in places and places[key(rest[0])] < places[key(entry)]:
            result.append(rest.pop(0))
        result.append(entry)
    return result + rest


def _plain(value: Any) -> Any:
    """A part of a patch that meets nothing: without its directives and nulls."""
    if isinstance(value, list):
        return [_plain(entry) for entry in value if not (isinstance(entry, dict) and entry.get("$patch") == "delete")]
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items() if entry is not None and not key.startswith("$")}
    return value


def _go_map(value: Object) -> str:
    return "[" + " ".join(f"{key}:{entry}" for key, entry in sorted(value.items())) + "]"

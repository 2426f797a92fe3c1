"""Lists: which version they show, pages, and continue tokens (etcd3's store.GetList, the cacher's GetList)."""

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from tests.worlds.api_server import errors
from tests.worlds.api_server.etcd import Etcd, Item
from tests.worlds.api_server.kinds import Kind
from tests.worlds.api_server.query import EXACT, ListOptions
from tests.worlds.api_server.selectors import field_selector, label_selector, parse_fields

# The first minor release whose watch cache lists at exact versions, too (ListFromCacheSnapshot).
EXACT_FROM_CACHE_SINCE: Final = 34

_TOO_OLD = "The resourceVersion for the provided list is too old."
_TOKEN_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


def matcher(kind: Kind, options: ListOptions) -> Callable[[Item], bool]:
    """Return whether an object is among those that a query asks for."""
    if not options.labels and not options.fields:
        return lambda _: True
    labels_match = label_selector(options.labels)
    fields_match = field_selector(kind, options.fields)
    if not options.labels:
        return lambda item: fields_match(item.value)
    return lambda item: labels_match(item.value["metadata"].get("labels") or {}) and fields_match(item.value)


class Wanted(msgspec.Struct, frozen=True):
    """What a list asks for.

    - `version`: 0 for any, or for the latest of all
    - `is_exact`: no later version will do
    - `of_etcd`: the watch cache is not asked about the version
    - `name`: of the one object that is asked for; empty if there may be several
    - `start`: the key at which a page begins
    """

    version: int
    is_exact: bool
    of_etcd: bool
    name: str = ""
    start: str = ""


def wanted_by(kind: Kind, namespace: str, options: ListOptions, minor: int) -> Wanted:
    """Return what a list asks for (the cacher's ShouldDelegateList). Raises RefusedError (400)."""
    version = int(options.version or "0")
    if options.token:
        start, revision = _decode(options.token, _prefix(namespace))
        if version:
            raise errors.bad_request("specifying resource version is not allowed when using continue")
        return Wanted(max(0, revision), is_exact=True, of_etcd=minor < EXACT_FROM_CACHE_SINCE, start=start)
    name = _single_name(kind, namespace, options)
    # A limit makes a version exact, except where one object is asked for by its name.
    is_limited = options.limit > 0 and not options.match and version > 0
    is_exact = options.match == EXACT or (is_limited and not name)
    of_etcd = (is_exact or is_limited) and (bool(name) or minor < EXACT_FROM_CACHE_SINCE)
    return Wanted(version, is_exact=is_exact, of_etcd=of_etcd, name=name)


def read(etcd: Etcd, kind: Kind, namespace: str, options: ListOptions, wanted: Wanted, cached_revision: int) -> bytes:
    """Return the body of a list's answer. It asks for no version that is yet to come.

    `cached_revision` is how far the watch cache of this server is; what asks for no certain version gets that one.
    Raises RefusedError: 410 for a version or token that is too old.
    """
    prefix = _prefix(namespace)
    matches = matcher(kind, options)
    revision = etcd.revision
    if wanted.is_exact:
        revision = wanted.version or revision
        if revision < etcd.compacted:
            if options.token:
                raise errors.expired(_TOKEN_TOO_OLD, next_token=_encode(wanted.start, prefix, -1))
            raise errors.expired(_TOO_OLD)
    elif options.version and not wanted.of_etcd:
        revision = cached_revision
    limit = 0 if options.version == "0" and not options.token else options.limit
    if wanted.name:
        item = etcd.item_at(kind, prefix + wanted.name, revision)
        items: Sequence[Item] = [] if item is None else [item]
    else:
        items = etcd.at(kind, revision)
    if prefix or wanted.start:
        items = [item for item in items if item.key.startswith(prefix) and item.key >= wanted.start]
    if kind.name == "Pod" and not wanted.is_exact:
        items = _in_index(items, options)
    return _page(kind, items, matches, limit, prefix, revision, has_selector=bool(options.labels or options.fields))


def _prefix(namespace: str) -> str:
    return f"{namespace}/" if namespace else ""


def _single_name(kind: Kind, namespace: str, options: ListOptions) -> str:
    """Return the name of the one object that can be meant, or nothing."""
    if bool(namespace) is not kind.is_namespaced:
        return ""
    names = [value for field, value, equal in parse_fields(options.fields) if field == "metadata.name" and equal]
    return names[0] if names else ""


def _in_index(items: Sequence[Item], options: ListOptions) -> Sequence[Item]:
    """Return the pods of a node if only they are asked for: with its index, the watch cache looks at no others."""
    for field, node_name, equal in parse_fields(options.fields):
        if field == "spec.nodeName" and equal:
            return [item for item in items if (item.value["spec"].get("nodeName") or "") == node_name]
    return items


def _page(
    kind: Kind,
    items: Sequence[Item],
    matches: Callable[[Item], bool],
    limit: int,
    prefix: str,
    revision: int,
    *,
    has_selector: bool,
) -> bytes:
    taken: list[Item] = []
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    for index, item in enumerate(items):
        if limit and len(taken) >= limit:
            metadata["continue"] = _encode(items[index - 1].key + "\0", prefix, revision)
            if not has_selector:
                metadata["remainingItemCount"] = len(items) - limit
            break
        if matches(item):
            taken.append(item)
    head = msgspec.json.encode({"kind": f"{kind.name}List", "apiVersion": kind.api_version, "metadata": metadata})
    return head[:-1] + b',"items":[' + b",".join(item.body for item in taken) + b"]}"


def _encode(start: str, prefix: str, revision: int) -> str:
    token = {"v": "meta.k8s.io/v1", "rv": revision, "start": start.removeprefix(prefix)}
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()


def _decode(token: str, prefix: str) -> tuple[str, int]:
    wrong = re.search(r"[^A-Za-z0-9_-]", token)
    if wrong or len(token) % 4 == 1:
        place = wrong.start() if wrong else len(token) - 1
        text = f"invalid continue token: continue key is not valid: illegal base64 data at input byte {place}"
        raise errors.bad_request(text)
    try:
        decoded = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return prefix + decoded["start"], decoded["rv"]
    except (binascii.Error, ValueError, KeyError, TypeError) as error:
        raise errors.bad_request("invalid continue token: continue key is not valid") from error

"""Which manager set which field of an object: metadata.managedFields, which the API server stores with an object.

Only updates (`Update`), not server-side apply; the rules are those of apimachinery's util/managedfields and of
structured-merge-diff. The API server compares what a client sends with what is stored, before admission and strategy:

- A field that is new or has another value goes from all managers to the client, which then has the time of the request.
- A field that is missing is taken from all managers.
- An object without managed fields gets none by an update.
- What an endpoint says that its strategy resets does not count: for a pod its status, for its status the spec.

pods/resize says nothing (ResizeREST has no GetResetFields). So the labels or the image that it drops count as set.
Bindings, evictions and deletions change a pod without a manager.

The API server stores a new version where its bytes differ, and managedFields are among them. So a resize that changes
nothing that a client sees may be a write. Where managedFields differ in their times alone, and nothing else differs,
they stay as they were (IgnoreManagedFieldsTimestampsTransformer). They are in the order of their times, so a time that
puts a manager behind another one is a difference.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

Object = dict[str, Any]
Path = tuple[str, ...]


@dataclass(frozen=True)
class Manager:
    """The name that a client gives or its User-Agent, and the subresource through which it writes."""

    name: str
    subresource: str


@dataclass(frozen=True)
class Managed:
    """The fields that one manager set, and when it last set one: RFC 3339, in seconds."""

    at: str
    fields: frozenset[Path]


ManagedFields = Mapping[Manager, Managed]

# What the endpoints of a pod say that they reset (GetResetFields).
_RESET: Final[Mapping[str, frozenset[Path]]] = {
    "": frozenset({("status",)}),
    "status": frozenset({("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences")}),
}
# Fields of the metadata that have no manager (stripMetaManager).
_UNMANAGED: Final = frozenset(
    ("metadata", name)
    for name in ("creationTimestamp", "generation", "name", "namespace", "resourceVersion", "selfLink", "uid")
)
# Structs that Go always writes, so that only what is in them is set.
_ALWAYS_THERE: Final = frozenset({"metadata", "spec", "status", "resources", "securityContext"})
# Lists whose entries are fields of their own, with their keys. Other lists are one field.
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "hostIPs": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "podIPs": ("ip",),
    "ports": ("containerPort", "protocol"),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
_SETS: Final = frozenset({"finalizers"})
# Structs that are one field, and lists of these.
_ATOMIC: Final = frozenset({"labelSelector", "nodeSelector", "ownerReferences"})


def updated(managed: ManagedFields, before: Object, sent: Object, manager: Manager, now: str) -> ManagedFields:
    """Return the managed fields after an update, or after a creation if `before` is empty.

    `sent` is what the client wants, with its defaults. Both are pods.
    """
    if before and not managed:
        return managed
    reset = _RESET.get(manager.subresource, frozenset())
    set_now: set[Path] = set()
    removed: set[Path] = set()
    _compare(before, sent, (), reset | _UNMANAGED, set_now, removed)
    if not set_now and not removed:
        return managed
    result = {}
    for other, present in managed.items():
        if kept := present.fields - set_now - removed:
            result[other] = Managed(present.at, kept)
    if set_now:
        own = managed[manager].fields - removed if manager in managed else frozenset()
        result[manager] = Managed(now, own | set_now)
    return result


def differ(after: ManagedFields, before: ManagedFields) -> bool:
    """Return whether managed fields differ, where nothing else of an object does."""
    return after is not before and _in_order(after) != _in_order(before)


def _in_order(managed: ManagedFields) -> list[tuple[Manager, frozenset[Path]]]:
    def place(manager: Manager) -> tuple[str, str, str]:
        return managed[manager].at, manager.name, manager.subresource

    return [(manager, managed[manager].fields) for manager in sorted(managed, key=place)]


def _compare(
    before: Any, sent: Any, path: Path, left_out: frozenset[Path], set_now: set[Path], removed: set[Path]
) -> None:
    """Add the fields that are new or others to `set_now`, and those that are missing to `removed`."""
    if before == sent or path in left_out:
        return
    old, new = _parts(before, path), _parts(sent, path)
    if old is None or new is None:
        set_now.add(path)
        return
    for name in old.keys() | new.keys():
        place = (*path, name)
        if _is_absent(new.get(name)):
            removed.update(_fields(old.get(name), place, left_out))
        elif _is_absent(old.get(name)):
            set_now.update(_fields(new[name], place, left_out))
        else:
            _compare(old[name], new[name], place, left_out, set_now, removed)


def _fields(value: Any, path: Path, left_out: frozenset[Path]) -> Iterator[Path]:
    """Yield a field and those in it."""
    if _is_absent(value) or path in left_out:
        return
    if path[-1] not in _ALWAYS_THERE:
        yield path
    for name, part in (_parts(value, path) or {}).items():
        yield from _fields(part, (*path, name), left_out)


def _parts(value: Any, path: Path) -> Mapping[str, Any] | None:
    """Return the fields in a value by their names or keys, None if it is one field."""
    if isinstance(value, list):
        name = path[-1]
        if name in _SETS:
            return {f"={entry}": True for entry in value}
        if name in _KEYS:
            return {"/".join(str(entry.get(key, "")) for key in _KEYS[name]): entry for entry in value}
        return None
    if not isinstance(value, dict) or not _ATOMIC.isdisjoint(path[-2:]):
        return None
    return value


def _is_absent(value: Any) -> bool:
    """Whether Go leaves a value out."""
    return value is None or value == {} or value == []

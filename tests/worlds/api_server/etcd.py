"""What is stored: objects by key, one revision for all of them, and the history until it is compacted.

Several API servers may share one Etcd, as they share an etcd. An object that is stored is never changed in place.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from tests.worlds.api_server.kinds import Kind
from tests.worlds.api_server.objects.managed_fields import ManagedFields

Object = dict[str, Any]
_FIRST_REVISION = 1
_COMPACTION_SECONDS = 300.0


class Item:
    """A version of an object, as it was stored. `value` has neither apiVersion nor kind, and no managedFields."""

    __slots__ = ("_body", "key", "managed", "revision", "value")

    def __init__(self, key: str, value: Object, revision: int, managed: ManagedFields | None = None) -> None:
        self.key = key
        self.value = value
        self.revision = revision
        self.managed: ManagedFields = managed or {}
        self._body: bytes | None = None

    @property
    def body(self) -> bytes:
        """Its JSON, encoded at the first use."""
        if self._body is None:
            self._body = msgspec.json.encode(self.value)
        return self._body

    def copy(self) -> Object:
        """Return the object to be changed."""
        value: Object = msgspec.json.decode(self.body)
        return value


class Change(msgspec.Struct, frozen=True):
    """One write. A deletion has no `after`; `item` is then what was there, at the revision of the deletion."""

    revision: int
    at: float
    before: Item | None
    after: Item | None
    item: Item


class _Table:
    """The objects of one kind: by key, their keys in order, and the changes in order of their revisions.

    `dependents` are the keys of objects with owners, `ending` of those that are being deleted: the garbage collector
    looks for these again and again, and there are few.
    """

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}
        self.keys: list[str] = []
        self.dependents: set[str] = set()
        self.ending: set[str] = set()
        self.changes: list[Change] = []

    def put(self, item: Item) -> None:
        if item.key not in self.items:
            insort(self.keys, item.key)
        self.items[item.key] = item
        self._mark(item)

    def drop(self, key: str) -> None:
        del self.items[key]
        self.dependents.discard(key)
        self.ending.discard(key)
        del self.keys[bisect_left(self.keys, key)]

    def _mark(self, item: Item) -> None:
        metadata = item.value["metadata"]
        has_owners, is_ending = metadata.get("ownerReferences"), "deletionTimestamp" in metadata
        (self.dependents.add if has_owners else self.dependents.discard)(item.key)
        (self.ending.add if is_ending else self.ending.discard)(item.key)


@dataclass(frozen=True)
class Backup:
    """A snapshot of the objects, as etcdctl saves one."""

    revision: int
    items: dict[Kind, tuple[Item, ...]]


class Etcd:
    """Stores the objects of all kinds. `clock` returns seconds since 1970.

    `listeners` are called with each change, in order; `on_restore` once all objects were replaced by a backup's;
    `needs` return the revision after which a watch cache needs the changes of a kind.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.revision = _FIRST_REVISION
        self.compacted = 0
        self.listeners: list[Callable[[Kind, Change], None]] = []
        self.on_restore: list[Callable[[], None]] = []
        self.needs: list[Callable[[Kind], int]] = []
        self._clock = clock
        self._noted = 0
        self._compacts_at = clock() + _COMPACTION_SECONDS
        self._tables: dict[Kind, _Table] = {}

    def get(self, kind: Kind, key: str) -> Item | None:
        """Return the object that is stored now."""
        return self._table(kind).items.get(key)

    def all(self, kind: Kind) -> Iterator[Item]:
        """Return all objects of a kind as they are now, in order of their keys."""
        table = self._table(kind)
        return (table.items[key] for key in tuple(table.keys))

    def dependents(self, kind: Kind) -> list[Item]:
        """Return the objects of a kind that have owners, in order of their keys."""
        table = self._table(kind)
        return [table.items[key] for key in sorted(table.dependents)]

    def ending(self, kind: Kind) -> Iterator[Item]:
        """Return the objects of a kind that are being deleted now, in order of their keys."""
        table = self._table(kind)
        return (table.items[key] for key in sorted(table.ending))

    def put(self, kind: Kind, key: str, value: Object, managed: ManagedFields | None = None) -> Item:
        """Store an object, new or changed, and give it its resource version."""
        self.revision += 1
        value["metadata"]["resourceVersion"] = str(self.revision)
        item = Item(key, value, self.revision, managed)
        before = self.get(kind, key)
        self._table(kind).put(item)
        self._record(kind, Change(self.revision, self._clock(), before, item, item))
        return item

    def delete(self, kind: Kind, key: str) -> Item:
        """Remove an object, and return it as its last event shows it."""
        before = self._table(kind).items[key]
        self.revision += 1
        value = {**before.value, "metadata": {**before.value["metadata"], "resourceVersion": str(self.revision)}}
        last = Item(key, value, self.revision)
        self._table(kind).drop(key)
        self._record(kind, Change(self.revision, self._clock(), before, None, last))
        return last

    def at(self, kind: Kind, revision: int) -> list[Item]:
        """Return all objects of a kind as they were at a revision that is not compacted, in order of their keys."""
        table = self._table(kind)
        changed: dict[str, Item | None] = {}
        for change in reversed(table.changes):
            if change.revision <= revision:
                break
            changed[change.item.key] = change.before
        if not changed:
            return [table.items[key] for key in table.keys]
        items = {**table.items, **changed}
        return [item for key in sorted(items) if (item := items[key]) is not None]

    def changes(self, kind: Kind, after: int) -> list[Change]:
        """Return the changes that are known of a kind after a revision."""
        known = self._table(kind).changes
        return known[bisect_right(known, after, key=lambda change: change.revision) :]

    def item_at(self, kind: Kind, key: str, revision: int) -> Item | None:
        """Return an object as it was at a revision that is not compacted."""
        for change in self.changes(kind, revision):
            if change.item.key == key:
                return change.before
        return self.get(kind, key)

    def compact(self, revision: int) -> None:
        """Let reads at earlier revisions fail from now on. Changes that a watch cache still needs stay."""
        self.compacted = max(self.compacted, revision)
        for kind, table in self._tables.items():
            needed = min((oldest(kind) for oldest in self.needs), default=self.compacted)
            until = min(self.compacted, needed)
            del table.changes[: bisect_right(table.changes, until, key=lambda change: change.revision)]

    def step(self) -> None:
        """Compact as API servers do: every five minutes, up to where the store was five minutes before."""
        if self._clock() >= self._compacts_at:
            self.compact(self._noted)
            self._noted = self.revision
            self._compacts_at = self._clock() + _COMPACTION_SECONDS

    def due_at(self) -> float:
        """Return when `step` has something to do."""
        return self._compacts_at

    def save(self) -> Backup:
        """Return a backup of what there is now."""
        return Backup(self.revision, {kind: tuple(table.items.values()) for kind, table in self._tables.items()})

    def restore(self, backup: Backup, *, bump_revision: int = 0) -> None:
        """Go back to a backup: objects and the revision. The history is gone, as after `etcdutl snapshot restore`.

        `bump_revision` is added to the revision, as with --bump-revision and --mark-compacted.
        """
        self.revision = self.compacted = self._noted = backup.revision + bump_revision
        self._tables = {}
        for kind, items in backup.items.items():
            for item in items:
                self._table(kind).put(item)
        for notify in self.on_restore:
            notify()

    def _table(self, kind: Kind) -> _Table:
        table = self._tables.get(kind)
        if table is None:
            table = self._tables[kind] = _Table()
        return table

    def _record(self, kind: Kind, change: Change) -> None:
        self._table(kind).changes.append(change)
        for notify in tuple(self.listeners):
            notify(kind, change)

"""Watches of one API server, from its watch cache: events in order, bookmarks, and windows that end.

The cache may lag behind etcd. Its window holds the latest changes of each kind: those of the last 75 seconds, and at
least the last hundred (apiserver/pkg/storage/cacher).
"""

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from random import Random

import msgspec

from tests.worlds.api_server import errors
from tests.worlds.api_server.etcd import Change, Etcd, Item
from tests.worlds.api_server.kinds import PODS, Kind
from tests.worlds.api_server.lists import matcher
from tests.worlds.api_server.messages import Watch
from tests.worlds.api_server.query import ListOptions
from tests.worlds.api_server.selectors import parse_fields

FRESH_SECONDS = 75.0
LEAST_CHANGES = 100
# The API server ends a watch that names no time-out after 30 to 60 minutes.
_LEAST_WATCH_SECONDS = 1800.0
_BOOKMARK_SECONDS = 60.0
# A watch that ends gets a bookmark so long before.
_BEFORE_END_SECONDS = 2.0
# How often the windows are shortened.
_SHORTEN_SECONDS = 10.0
# Fields by which watches are found, as the API server has triggers for some (registry/core/pod/storage).
_INDEXED = ("spec.nodeName", "metadata.name")
_INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}

IndexKey = tuple[Kind, str, str]


class _Watcher:
    """One watch: what it wants, how far it is, and when something is due."""

    def __init__(
        self, watch: Watch, kind: Kind, prefix: str, options: ListOptions, position: int, now: float, ends_at: float
    ) -> None:
        self.watch = watch
        self.kind = kind
        self.index_key = index_key(kind, options)
        self.prefix = prefix
        self.allows_bookmarks = options.allows_bookmarks
        self.position = position
        self.ends_at = ends_at
        self._opened_at = now
        self.bookmark_at = self._next_bookmark(now)
        self._matches = matcher(kind, options)

    def due_at(self) -> float:
        """Return when it ends or gets a bookmark."""
        return min(self.ends_at, self.bookmark_at) if self.allows_bookmarks else self.ends_at

    def wants(self, item: Item) -> bool:
        return item.key.startswith(self.prefix) and self._matches(item)

    def deliver(self, change: Change) -> None:
        """Send the event that a change is for this watch, if any."""
        if change.revision <= self.position:
            return
        self.position = change.revision
        before = change.before is not None and self.wants(change.before)
        after = change.after is not None and self.wants(change.after)
        if after and change.after is not None:
            self.watch.send(line(self.kind, "MODIFIED" if before else "ADDED", change.after))
        elif before and change.before is not None:
            last = change.item if change.after is None else _at_revision(change.before, change.revision)
            self.watch.send(line(self.kind, "DELETED", last))

    def send_bookmark(self, revision: int | None, now: float) -> None:
        """Say how far the watch is, if that is known, and set the time of the next bookmark.

        A watch that began at a later version gets none until that is reached.
        """
        self.bookmark_at = self._next_bookmark(now)
        if revision is not None and revision >= self.position:
            self.watch.send(bookmark(self.kind, revision))

    def _next_bookmark(self, now: float) -> float:
        """Return when the next one is due: each minute, and shortly before the end."""
        before_end = self.ends_at - _BEFORE_END_SECONDS
        return min(now + _BOOKMARK_SECONDS, before_end) if now < before_end else now + _BOOKMARK_SECONDS


class WatchCache:
    """The watches of one API server on an Etcd. `lag_seconds` is how far it is behind; it may change at any time.

    Without lag, events come as the change is made. `step` delivers what is due, `due_at` says when.
    """

    def __init__(self, etcd: Etcd, clock: Callable[[], float], random: Random) -> None:
        self.lag_seconds = 0.0
        self.revision = etcd.revision
        self._etcd = etcd
        self._clock = clock
        self._random = random
        self._pending: deque[tuple[Kind, Change]] = deque()
        self._watchers: dict[Watch, _Watcher] = {}
        self._by_key: dict[IndexKey, dict[Watch, _Watcher]] = {}
        # When each watch is due, with a number in the order of their opening. Those that are closed stay until then.
        self._due: list[tuple[float, int, _Watcher]] = []
        self._numbers = itertools.count()
        self._due_at = float("inf")
        self._oldest: dict[Kind, int] = {}
        self._listed_at = etcd.revision
        self._has_seen: set[Kind] = set()
        self._shortens_at = clock()
        etcd.listeners.append(self._record)
        etcd.needs.append(lambda kind: min(self.oldest(kind), self.revision))
        etcd.on_restore.append(self.restart)

    def restart(self) -> None:
        """Begin again, as after a restart of the server: its watches end, and older versions are unknown."""
        for watcher in tuple(self._watchers.values()):
            watcher.watch.end()
        self._pending.clear()
        self._oldest.clear()
        self._has_seen.clear()
        self.revision = self._listed_at = self._etcd.revision

    def open(self, kind: Kind, namespace: str, options: ListOptions) -> Watch:
        """Open a watch. It may bring only an error (`failed_watch`)."""
        now = self._clock()
        position = int(options.version or "0")
        seconds = float(options.timeout_seconds or _LEAST_WATCH_SECONDS * (1 + self._random.random()))
        wants_state = options.sends_initial_events or (options.sends_initial_events is None and position == 0)
        if not wants_state and position and position < self.oldest(kind):
            text = f"too old resource version: {position} ({self.oldest(kind)})"
            return failed_watch(errors.expired(text))
        watch = Watch(self._close)
        prefix = f"{namespace}/" if namespace else ""
        start = self.revision if wants_state or not position else position
        watcher = _Watcher(watch, kind, prefix, options, start, now, now + seconds)
        self._watchers[watch] = self._by_key.setdefault(watcher.index_key, {})[watch] = watcher
        heapq.heappush(self._due, (watcher.due_at(), next(self._numbers), watcher))
        self._due_at = min(self._due_at, watcher.due_at())
        if wants_state:
            for item in self._etcd.at(kind, self.revision):
                if watcher.wants(item):
                    watch.send(line(kind, "ADDED", item))
            if options.sends_initial_events and options.allows_bookmarks:
                watch.send(bookmark(kind, self.revision, _INITIAL_EVENTS_END))
        else:
            for change in self._etcd.changes(kind, position):
                if change.revision <= self.revision:
                    watcher.deliver(change)
        return watch

    def oldest(self, kind: Kind) -> int:
        """Return the oldest version from which a watch can go on."""
        return self._oldest.get(kind, self._listed_at)

    def step(self) -> None:
        """Deliver the changes that are due, bookmarks and ends of watches, and shorten the windows."""
        now = self._clock()
        while self._pending and self._pending[0][1].at + self.lag_seconds <= now:
            self._deliver(*self._pending.popleft())
        for number, watcher in self._take_due(now):
            if watcher.allows_bookmarks and watcher.bookmark_at <= now:
                # The API server sends none before it has seen a change of the kind.
                watcher.send_bookmark(self.revision if watcher.kind in self._has_seen else None, now)
            if watcher.ends_at <= now:
                watcher.watch.end()
            else:
                heapq.heappush(self._due, (watcher.due_at(), number, watcher))
        self._due_at = self._due[0][0] if self._due else float("inf")
        if now >= self._shortens_at:
            self._shortens_at = now + _SHORTEN_SECONDS
            for kind in self._has_seen:
                self._shorten(kind, now)

    def _take_due(self, now: float) -> list[tuple[int, _Watcher]]:
        """Take the watches for which something is due, in the order of their opening, and those that are closed."""
        taken: list[tuple[int, _Watcher]] = []
        while self._due and (self._due[0][0] <= now or self._due[0][2].watch not in self._watchers):
            _, number, watcher = heapq.heappop(self._due)
            if watcher.watch in self._watchers:
                taken.append((number, watcher))
        return sorted(taken, key=lambda entry: entry[0])

    def _shorten(self, kind: Kind, now: float) -> None:
        known = self._etcd.changes(kind, self.oldest(kind))
        gone = [change for change in known[:-LEAST_CHANGES] if change.at < now - FRESH_SECONDS]
        if gone and gone[-1].revision <= self.revision:
            self._oldest[kind] = gone[-1].revision

    def due_at(self) -> float:
        """Return when `step` has something to do for watches; earlier, where the watch in question was closed."""
        pending_at = self._pending[0][1].at + self.lag_seconds if self._pending else float("inf")
        return min(self._due_at, pending_at)

    def reaches_at(self, revision: int) -> float:
        """Return when this cache will have a revision that etcd has; infinite for one that is yet to come."""
        if revision <= self.revision:
            return self._clock()
        for _, change in self._pending:
            if change.revision >= revision:
                return change.at + self.lag_seconds
        return float("inf")

    def _record(self, kind: Kind, change: Change) -> None:
        if self.lag_seconds or self._pending:
            self._pending.append((kind, change))
        else:
            self._deliver(kind, change)

    def _deliver(self, kind: Kind, change: Change) -> None:
        self.revision = change.revision
        self._has_seen.add(kind)
        if not self._watchers:
            return
        for key in index_keys(kind, change):
            for watcher in tuple(self._by_key.get(key, {}).values()):
                watcher.deliver(change)

    def _close(self, watch: Watch) -> None:
        watcher = self._watchers.pop(watch, None)
        if watcher is not None:
            del self._by_key[watcher.index_key][watch]


def index_key(kind: Kind, options: ListOptions) -> IndexKey:
    """Return what a watch is found by: its kind, and for one of the pods of a node or of one object, that name."""
    terms = {name: value for name, value, is_equal in parse_fields(options.fields) if is_equal}
    for name in _INDEXED:
        if name in terms:
            return kind, name, terms[name]
    return kind, "", ""


def index_keys(kind: Kind, change: Change) -> Iterator[IndexKey]:
    """Yield what the watches that a change may concern are found by."""
    yield kind, "", ""
    values = [item.value for item in (change.before, change.after) if item is not None]
    yield kind, "metadata.name", values[0]["metadata"]["name"]
    if kind is PODS:
        for name in dict.fromkeys(value["spec"].get("nodeName", "") for value in values):
            yield kind, "spec.nodeName", name


def line(kind: Kind, event: str, item: Item) -> bytes:
    """Return an event as a line of a watch."""
    head = f'{{"type":"{event}","object":{{"kind":"{kind.name}","apiVersion":"{kind.api_version}",'
    return head.encode() + item.body[1:] + b"}\n"


def bookmark(kind: Kind, revision: int, annotations: dict[str, str] | None = None) -> bytes:
    """Return a bookmark as a line of a watch."""
    metadata = {"resourceVersion": str(revision), **({"annotations": annotations} if annotations else {})}
    value = {"kind": kind.name, "apiVersion": kind.api_version, "metadata": metadata}
    return msgspec.json.encode({"type": "BOOKMARK", "object": value}) + b"\n"


def failed_watch(refusal: errors.RefusedError) -> Watch:
    """Return a watch that brings an error and has ended: the API server has answered with the status 200 by then."""
    watch = Watch(lambda _: None)
    watch.send(msgspec.json.encode({"type": "ERROR", "object": refusal.status}) + b"\n")
    watch.end()
    return watch


def _at_revision(item: Item, revision: int) -> Item:
    value = {**item.value, "metadata": {**item.value["metadata"], "resourceVersion": str(revision)}}
    return Item(item.key, value, revision)

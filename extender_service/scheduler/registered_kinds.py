"""Kinds of objects that only users' plugins care about: watched because `retry_on` has them, and for that alone.

No decision depends on these objects, so they are in no column. What the store keeps of each is its version, which shows
what a change is, and its JSON, which hints are given. Where a kind has more JSON than `MOST_BYTES`, the objects that
changed least recently are kept without; hints get the name and namespace of such an object in place of the old one.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from extender_service.caches import LruCache
from extender_service.config.rules import Rules
from extender_service.framework.cluster_event import (
    ASSIGNED_POD,
    EVERY_CHANGE,
    TARGET_POD,
    UNSCHEDULED_POD,
    VOLUME_ATTACHMENT,
    WILD_CARD,
    ActionType,
)
from extender_service.framework.events import reported_events
from extender_service.framework.queueing_hints import QueueingHints
from extender_service.kube.parsing.decoder import DecodeError, Decoder
from extender_service.kube.resources.any_kind import AnyObject
from extender_service.kube.types.keys import Key, key_of
from extender_service.queue.scheduling_queue import SchedulingQueue
from extender_service.scheduler.metrics.event_timing import UNTIMED, EventTiming, timed

log = logging.getLogger(__name__)

# JSON of one kind: some 30,000 objects of 2 KB.
MOST_BYTES: Final = 64 << 20
_MOST_OBJECTS: Final = 1 << 20

_whole = Decoder(dict[str, Any])

# What is watched for all plugins, and pods by other names.
_OTHERS: Final = {
    WILD_CARD,
    VOLUME_ATTACHMENT,
    ASSIGNED_POD,
    TARGET_POD,
    UNSCHEDULED_POD,
    *(event.resource for event in EVERY_CHANGE),
}


def registered_kinds(hints: Iterable[QueueingHints]) -> Mapping[str, set[str]]:
    """Return the plugins that registered a kind, by its name as in widgets.v1.example.com."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for by_event in hints:
        for event, registered in by_event.items():
            if event.resource not in _OTHERS:
                found[event.resource] |= {each.plugin for each in registered}
    return found


class RegisteredKind:
    """The store of one kind, which reports each change to the queue, as the release of the `rules` names it.

    With `keeps_json`, hints get the objects.
    """

    def __init__(
        self,
        name: str,
        queue: SchedulingQueue,
        rules: Rules,
        timing: EventTiming = UNTIMED,
        *,
        keeps_json: bool,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.timing = timing
        self._name = name
        self._called = _title(name.partition(".")[0])
        self._events = reported_events(rules)
        self._queue = queue
        self._keeps_json = keeps_json
        self._versions: dict[Key, str] = {}
        self._json: LruCache[Key, bytes] = LruCache(
            "objects of kinds that plugins registered", most_entries=_MOST_OBJECTS, most_bytes=most_bytes
        )

    def keys(self) -> Iterable[Key]:
        """The objects that there are."""
        return self._versions.keys()

    @timed
    def apply(self, obj: AnyObject) -> Sequence[str]:
        """Report an object that is new or has changed; nothing happens if it comes again unchanged."""
        key, version = key_of(obj), obj.metadata.resource_version
        before = self._versions.get(key)
        if version == before:
            return ()
        old = None if before is None else self._find(key)
        self._versions[key] = version
        if self._keeps_json:
            self._json.keep(key, obj.whole_json, len(obj.whole_json))
        new = self._given(key, obj.whole_json)
        if before is None:
            return self._move(ActionType.ADD, None, new)
        return self._move(ActionType.UPDATE, old, new)

    @timed
    def remove(self, key: Key) -> Sequence[str]:
        """Report that an object is gone."""
        if key not in self._versions:
            return ()
        old = self._find(key)
        del self._versions[key]
        self._json.forget(key)
        return self._move(ActionType.DELETE, old, None)

    def _find(self, key: Key) -> Mapping[str, Any] | None:
        return self._given(key, self._json[key])

    def _given(self, key: Key, json: bytes | None) -> Mapping[str, Any] | None:
        """Return what hints are given: the object, or its name where its JSON is not kept or nested too deeply."""
        if not self._keeps_json:
            return None
        try:
            if json is not None:
                return _whole.decode(json)
        except DecodeError as error:
            log.warning("an object cannot be decoded", extra={"kind": self._name, "object": key, "error": str(error)})
        return {"metadata": {"namespace": key[0], "name": key[1]}}

    def _move(self, action: ActionType, old: Any, new: Any) -> Sequence[str]:
        event = self._events.object_change(self._name, action, called=self._called)
        if not self._queue.is_registered(event):
            return ()
        self._queue.move_all_to_active_or_backoff(event, old, new)
        return (event.label,)


def _title(plural: str) -> str:
    """Return what v1.31.1 calls a kind in labels: strings.Title of the plural name."""
    return "-".join(part[:1].upper() + part[1:] for part in plural.split("-"))

"""Writes events about objects (events.k8s.io/v1), which users read with kubectl.

The rules are those of client-go's recorder (tools/events/event_broadcaster.go). Occurrences with the same object, type,
reason, action and controller are one event with a series. The recorder writes the event at the first occurrence and the
series at the second, then every half hour, and six minutes after the last one. Recording never waits for a write, and a
failed write affects no other code.
"""

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import msgspec

from extender_service.kube.api_errors import ApiError, KubeError
from extender_service.kube.connection.backoff import Backoff
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.resources.api_resources import Resource
from extender_service.kube.types.core import Object, ObjectMeta
from extender_service.kube.writing.timestamps import micro_time
from extender_service.seams import THIS_MACHINE, Machine

log = logging.getLogger(__name__)

FINISH_SECONDS = 6 * 60.0
REFRESH_SECONDS = 30 * 60.0
MAX_TRIES = 12
# client-go's queue holds 1,000, but it empties that into as many goroutines as there are events.
MAX_QUEUED = 10_000
# Of written events that may become series, 40 MB or so; client-go keeps any number of them for six minutes.
MAX_KNOWN = 50_000
# As a scheduler binds as many pods a second as an API server answers writes, events must not be written one by one.
_WRITERS = 16

# The API server's limits for a note (pkg/apis/core/validation/events.go) and for any object's name.
_NOTE_BYTES = 1024
_NAME_LENGTH = 253


class ObjectReference(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """v1.ObjectReference of a namespaced object. With a resource version, events about another one are other events."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str = ""


class Occurrence(msgspec.Struct, frozen=True, gc=False):
    """Something that happened to an object. `note` is for people, `reason` and `action` for machines, in CamelCase.

    `controller` is the event's reportingController; the recorder's own if it is empty.
    `is_deletion` is whether the object was deleted; the event that is written does not say so.
    """

    regarding: ObjectReference
    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str
    related: ObjectReference | None = None
    controller: str = ""
    is_deletion: bool = False


class StoredEvent(Object):
    """What the API server has. We read none of it."""

    metadata: ObjectMeta = ObjectMeta()


EVENTS = Resource("events.k8s.io", "v1", "events", StoredEvent)

_Key = tuple[ObjectReference, ObjectReference | None, str, str, str, str]


class _Event(msgspec.Struct, eq=False, gc=False):
    """One event: its first occurrence, the count of all occurrences, and the count that was written last.

    The note of the first occurrence is cut to what the API server takes.
    """

    first: Occurrence
    first_ns: int
    last_ns: int
    count: int = 1
    written_count: int = 0
    is_stored: bool = False
    is_queued: bool = False
    is_being_written: bool = False

    @property
    def has_unwritten_series(self) -> bool:
        """Whether the event is a series with a count that is not written yet."""
        return self.count > 1 and self.count != self.written_count


class EventRecorder:
    """Writes events in the background, while `run` runs.

    `counts` has the number of events by outcome: written; failed, if the API server refused or could not be reached
    after MAX_TRIES; dropped, if the queue was full.
    """

    def __init__(
        self,
        client: KubeClient,
        controller: str,
        *,
        machine: Machine = THIS_MACHINE,
        backoff: Callable[[], Backoff] | None = None,
    ) -> None:
        """`controller` is the reportingController of events whose occurrences name none.

        As in kube-scheduler, events should have a client, and so a limit of their rate, of their own.
        """
        self.counts: Counter[str] = Counter(written=0, failed=0, dropped=0)
        self._client = client
        self._controller = controller
        self._host_name = machine.host_name()
        self._clock_ns = machine.wall_clock_ns
        self._backoff = backoff or partial(Backoff, clock=machine.clock, uniform=machine.random.uniform)
        self._known: OrderedDict[_Key, _Event] = OrderedDict()  # the oldest first
        self._queue: asyncio.Queue[_Event] = asyncio.Queue(MAX_QUEUED)

    def record(self, occurrence: Occurrence) -> None:
        """Record an occurrence. Does not wait and does not raise. Call it only in the event loop's thread."""
        key = (
            occurrence.regarding,
            occurrence.related,
            occurrence.type,
            occurrence.reason,
            occurrence.action,
            occurrence.controller,
        )
        now = self._clock_ns()
        event = self._known.get(key)
        if event is None:
            # The text of a failure may have a megabyte, as the author of a pod likes, and events are kept for minutes.
            note = cut_note(occurrence.note)
            if note is not occurrence.note:
                occurrence = msgspec.structs.replace(occurrence, note=note)
            event = _Event(occurrence, now, now)
            if self._enqueue(event):
                self._known[key] = event
                self._forget_oldest()
            else:
                self.counts["dropped"] += 1
            return
        event.count += 1
        event.last_ns = now
        if event.count == 2:  # later ones are only counted, until the series is refreshed or ends
            self._enqueue(event)

    async def run(self) -> None:
        """Write recorded events, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_WRITERS):
                tasks.create_task(self._write_queued())
            tasks.create_task(_every(FINISH_SECONDS, self._finish))
            tasks.create_task(_every(REFRESH_SECONDS, self._refresh))

    async def drain(self, seconds: float) -> None:
        """Wait until `run` has written all events and the counts of all series, for `seconds` at most."""
        for event in self._known.values():
            if event.has_unwritten_series:
                self._enqueue(event)
        try:
            async with asyncio.timeout(seconds):
                await self._queue.join()
        except TimeoutError:
            left = sum(event.is_queued or event.is_being_written for event in self._known.values())
            log.warning("stopped before all events were written", extra={"queued": left})

    def _enqueue(self, event: _Event) -> bool:
        if not event.is_queued:
            # One that is being written is queued after that: its writes must not overtake each other.
            if not event.is_being_written:
                try:
                    self._queue.put_nowait(event)
                except asyncio.QueueFull:
                    return False
            event.is_queued = True
        return True

    def _forget_oldest(self) -> None:
        """Forget events beyond MAX_KNOWN. A later occurrence of one starts a new event, as after its end."""
        while len(self._known) > MAX_KNOWN:
            _, event = self._known.popitem(last=False)
            if event.has_unwritten_series and not self._enqueue(event):
                self.counts["dropped"] += 1

    def _refresh(self) -> None:
        """Write all series again: the API server deletes an event an hour after its last write."""
        for event in self._known.values():
            if event.count > 1:
                self._enqueue(event)

    def _finish(self) -> None:
        """End events without a recent occurrence. A later occurrence starts a new event."""
        ended_before = self._clock_ns() - int(FINISH_SECONDS * 1e9)
        for key, event in list(self._known.items()):
            if event.last_ns < ended_before and (not event.has_unwritten_series or self._enqueue(event)):
                del self._known[key]

    async def _write_queued(self) -> None:
        while True:
            event = await self._queue.get()
            event.is_queued = False
            event.is_being_written = True
            try:
                self.counts["written" if await self._write(event) else "failed"] += 1
            except Exception:
                # A bug in writing an event must not end the service.
                log.exception("writing an event failed")
                self.counts["failed"] += 1
            event.is_being_written = False
            if event.is_queued:
                event.is_queued = False
                if not self._enqueue(event):
                    self.counts["dropped"] += 1
            self._queue.task_done()

    async def _write(self, event: _Event) -> bool:
        """Write an event, with retries if the error may be temporary. Returns whether it was written."""
        backoff: Backoff | None = None
        for _ in range(MAX_TRIES):
            try:
                await self._send(event)
            except (KubeError, CredentialsError) as error:
                backoff = backoff or self._backoff()
                text, seconds = str(error), _retry_after(error, backoff)
                if seconds is None:
                    break
            else:
                return True
            await asyncio.sleep(seconds)
        regarding = f"{event.first.regarding.namespace}/{event.first.regarding.name}"
        log.warning(
            "an event could not be written", extra={"object": regarding, "reason": event.first.reason, "error": text}
        )
        return False

    async def _send(self, event: _Event) -> None:
        count = event.count
        if not event.is_stored or not await self._patch_series(event):
            await self._create(event)
        event.written_count = count

    async def _create(self, event: _Event) -> None:
        try:
            await self._client.create_unread(EVENTS, event.first.regarding.namespace, self._manifest(event))
        except ApiError as error:
            # On a conflict, an earlier try did create the event, and only its answer was lost.
            if error.status_code != 409 or (event.count > 1 and not await self._patch_series(event)):
                raise
        event.is_stored = True

    async def _patch_series(self, event: _Event) -> bool:
        """Write the series of a stored event. Returns False if the API server no longer has the event."""
        try:
            namespace = event.first.regarding.namespace
            await self._client.patch_unread(EVENTS, namespace, _name(event), {"series": _series(event)})
        except ApiError as error:
            if error.status_code != 404:
                raise
            return False
        return True

    def _manifest(self, event: _Event) -> dict[str, Any]:
        first = event.first
        controller = first.controller or self._controller
        manifest: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": first.regarding.namespace, "name": _name(event)},
            "eventTime": micro_time(event.first_ns),
            "reportingController": controller,
            "reportingInstance": f"{controller}-{self._host_name}",
            "regarding": first.regarding,
            "type": first.type,
            "reason": first.reason,
            "action": first.action,
            "note": first.note,
        }
        if first.related is not None:
            manifest["related"] = first.related
        if event.count > 1:
            manifest["series"] = _series(event)
        return manifest


def cut_note(note: str) -> str:
    """Return a note as the API server takes it: of 1,024 bytes at most (truncateMessage in schedule_one.go)."""
    if len(note) <= _NOTE_BYTES // 4:  # no character has more than four bytes
        return note
    encoded = note[: _NOTE_BYTES + 1].encode(errors="replace")
    if len(encoded) <= _NOTE_BYTES:
        return note
    suffix = " ..."
    return encoded[: _NOTE_BYTES - len(suffix)].decode(errors="ignore") + suffix


def _retry_after(error: Exception, backoff: Backoff) -> float | None:
    """Return the seconds to wait before the next try; None if the API server would refuse it again."""
    return error.retry_after_seconds if isinstance(error, ApiError) else backoff.next_delay()


async def _every(seconds: float, act: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(seconds)
        act()


def _name(event: _Event) -> str:
    suffix = f".{event.first_ns:x}"
    return event.first.regarding.name[: _NAME_LENGTH - len(suffix)].rstrip("-.") + suffix


def _series(event: _Event) -> dict[str, object]:
    return {"count": event.count, "lastObservedTime": micro_time(event.last_ns)}

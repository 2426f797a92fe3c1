"""Keeps a store equal to what the API server has: list, then watch, then whatever a fault makes necessary.

The rules are those of client-go's reflector (tools/cache/reflector.go), with these differences:

- Lists are always paged and read the latest state.
- A watch that could not be opened is tried again without a new list, unless the server asks for one; and what happens
  to a healthy watch now and then (it is cut, or its version has expired) costs no wait.
- A watch is asked for seconds, not minutes: HTTP/1.1 has no ping, so its punctual end is the sign that the connection
  lives, and one that keeps silent for longer is dead. To go on over the same connection costs both sides little.
- After a failure the server must show that it knows the version that was seen. One whose etcd was restored from a
  snapshot would take the watch, and keep to itself all that happens until its versions get there again. (Where they are
  there again before we look, nothing tells; `etcdutl snapshot restore --bump-revision` is made for that.)
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from extender_service.kube.api_errors import (
    ApiError,
    HistoryError,
    InvalidAnswerError,
    KubeError,
    SilentError,
    UnreachableError,
)
from extender_service.kube.api_resources import Resource, T
from extender_service.kube.connection.backoff import Backoff
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.connection.event_stream import Event, EventStream
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.types.keys import Key, key_of

logger = logging.getLogger(__name__)

# A call takes so many turns of the event loop from its first bytes to its answer, and should not wait at each.
_TURNS_BETWEEN_SLICES = 8

_T_contra = TypeVar("_T_contra", contravariant=True)


class Store(Protocol[_T_contra]):
    """What a reflector fills. The same change may come twice, and an object again under another UID."""

    def apply(self, obj: _T_contra) -> None:
        """Take in an object that is new, changed or unchanged."""

    def remove(self, key: Key) -> None:
        """Drop the object with this key, if there is one."""

    def keys(self) -> Iterable[Key]:
        """Return the keys of all objects held."""


@dataclass
class WatchState:
    """How far a store can be trusted, at any time; times are seconds of `time.monotonic`.

    `synced`: the first list has been applied in full. `heard_at`: what the server had then is in the store, as far as
    the lists and the watches that have ended tell; at first, when this was made. `watch`: the one that is open, and
    `last_error`: why none is. The counters are for metrics; `relists` counts the lists that an expired resource version
    made necessary.
    """

    heard_at: float
    synced: bool = False
    watch: EventStream[Any] | None = None
    last_error: str | None = None
    last_resource_version: str = ""
    lists: int = 0
    watches: int = 0
    relists: int = 0
    events: Counter[str] = field(default_factory=Counter)

    @property
    def current_at(self) -> float:
        """Until when the store follows the server; while all is well, seconds ago at most."""
        return self.heard_at if self.watch is None else max(self.heard_at, self.watch.current_at)


@dataclass(frozen=True)
class Limits:
    """Sizes and times.

    The server is asked to end a watch after `watch_seconds`, or a second before. Without a byte for `idle_seconds` a
    connection counts as dead; after two tries without an answer, it may take longer. A watch shorter than
    `short_watch_seconds` counts as a failure, and so does one whose version expires so soon after the list. Between
    slices of `slice_seconds`, a list that is being applied lets other tasks run.
    """

    page_size: int = 500
    slice_seconds: float = 0.002
    watch_seconds: int = 4
    short_watch_seconds: float = 0.5
    idle_seconds: float = 6.0


# client-go waits for up to a minute between tries, as thousands of kubelets share the API server: here they are few,
# and kube-scheduler waits for each.
_LONGEST_WAIT_SECONDS = 1.5
# After a failure, a watch soon ends, to tell that it brings what there is.
_SECONDS_IN_DOUBT = 1
# The API server's own limit for an answer.
_LONGEST_SILENCE_SECONDS = 60.0


class Reflector(Generic[T]):
    """Fills one store with one resource; `state` says at any time how good the store is."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource[T],
        store: Store[T],
        *,
        field_selector: str = "",
        limits: Limits = Limits(),
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._resource = resource
        self._store = store
        self._field_selector = field_selector
        self._limits = limits
        self._backoff = backoff or Backoff(limit_seconds=_LONGEST_WAIT_SECONDS)
        self._clock = clock
        self._sleep = sleep
        self._synced = asyncio.Event()
        self._must_list = True
        self._is_in_doubt = False
        self._listed_at = 0.0
        self._tried_at = 0.0
        self._watch_opened_at: float | None = None
        self._silences = 0
        self.state = WatchState(heard_at=clock())

    async def wait_synced(self) -> None:
        """Return once the first list has been applied in full."""
        await self._synced.wait()

    async def run(self) -> None:
        """List and watch until cancelled; only what the store raises ends it otherwise."""
        while True:
            failure: KubeError | CredentialsError | None = None
            self._tried_at = self._clock()
            self._watch_opened_at = None
            try:
                if self._must_list:
                    await self._list()
                await self._watch()
            except (KubeError, CredentialsError) as error:
                failure = error
            await self._recover(failure)

    async def _list(self) -> None:
        """Bring the store to the server's present state: apply all that is there, then remove what is not."""
        started = self._clock()
        self.state.lists += 1
        slices = _Slices(self._limits.slice_seconds, self._clock)
        listed: set[Key] = set()
        version = ""
        async for page in self._client.list_pages(
            self._resource,
            field_selector=self._field_selector,
            limit=self._limits.page_size,
            silence_seconds=self._silence_seconds(),
        ):
            version = page.resource_version
            for obj in page.items:
                self._store.apply(obj)
                listed.add(key_of(obj))
                if slices.is_over():
                    await slices.rest()
        for key in list(self._store.keys()):
            if key not in listed:
                self._store.remove(key)
            if slices.is_over():
                await slices.rest()
        self._must_list = self._is_in_doubt = False
        self._silences = 0
        self._listed_at = self._clock()
        self.state.heard_at = started
        self.state.last_resource_version = version
        self.state.synced = True
        self._synced.set()
        seconds = self._listed_at - started
        logger.info("%s: listed %d at version %s in %.1f s", self._resource.plural, len(listed), version, seconds)

    async def _watch(self) -> None:
        """Follow the changes until the watch ends."""
        self.state.watches += 1
        async with self._client.watch(
            self._resource,
            self.state.last_resource_version,
            field_selector=self._field_selector,
            timeout_seconds=_SECONDS_IN_DOUBT if self._is_in_doubt else self._watch_seconds(),
            idle_seconds=self._silence_seconds(),
        ) as events:
            opened_at = self._clock()
            if self._is_in_doubt:
                await self._compare_versions()
            self._watch_opened_at = opened_at
            self._silences = 0
            if self.state.last_error is not None:
                logger.info("%s: watching again after %.1f s", self._resource.plural, opened_at - self.state.heard_at)
            self.state.watch, self.state.last_error = events, None
            try:
                async for event in events:
                    self._take(event)
                ended_at = self._clock()
                if ended_at - opened_at >= self._limits.short_watch_seconds:
                    self.state.heard_at = ended_at
            except ApiError:
                self.state.events["ERROR"] += 1
                raise
            finally:
                self.state.heard_at = self.state.current_at
                self.state.watch = None

    async def _compare_versions(self) -> None:
        """Make sure that the server knows the version that was seen last; raises HistoryError."""
        latest = await self._client.latest_version(self._resource, silence_seconds=self._silence_seconds())
        seen = self.state.last_resource_version
        # Versions are numbers that grow (KEP-5504), as etcd's revisions are.
        if latest.isdecimal() and seen.isdecimal() and int(latest) < int(seen):
            raise HistoryError(f"the API server is at version {latest}, before {seen}: etcd has been restored")
        self._is_in_doubt = False

    def _take(self, event: Event[T]) -> None:
        obj = event.object
        version = obj.metadata.resource_version
        if not version:
            raise InvalidAnswerError("an event of the watch has no resource version")
        if event.type == "DELETED":
            self._store.remove(key_of(obj))
        elif event.type != "BOOKMARK":
            self._store.apply(obj)
        self.state.events[event.type] += 1
        self.state.last_resource_version = version

    async def _recover(self, failure: KubeError | CredentialsError | None) -> None:
        """After the end of a watch (no failure) or a failure: decide what comes next, and wait as long as it must."""
        delay = self._delay(failure)
        if failure is not None:
            self._is_in_doubt = True
            if isinstance(failure, SilentError) and self._watch_opened_at is None:
                self._silences += 1
            if self._needs_list(failure):
                self._must_list = True
                self.state.relists += not isinstance(failure, ApiError) or failure.is_about_version
            text = str(failure)
            level = logging.DEBUG if text == self.state.last_error else logging.WARNING
            step = "list" if self._must_list else "watch"
            logger.log(level, "%s: %s; next %s in %.1f s", self._resource.plural, text, step, delay)
            self.state.last_error = text
        await self._sleep(delay)

    def _delay(self, failure: KubeError | CredentialsError | None) -> float:
        """Return the seconds to wait: none for what happens to a healthy watch now and then, if not too often."""
        now, often = self._clock(), self._limits.short_watch_seconds
        asked = 0.0
        if failure is None or isinstance(failure, UnreachableError):
            # It was closed or cut. A watch that could not even be opened is another matter.
            if self._watch_opened_at is not None and now - self._watch_opened_at >= often:
                return 0.0
        elif isinstance(failure, HistoryError):
            return 0.0
        elif isinstance(failure, ApiError):
            # Expired: an API server that was started anew does not know the past.
            if failure.expired and not self._must_list and now - self._listed_at >= often:
                return 0.0
            asked = failure.retry_after_seconds or 0.0
        # To have waited for an answer in vain was a wait, too.
        waited = now - self._tried_at if isinstance(failure, SilentError) else 0.0
        return max(self._backoff.next_delay() - waited, asked, 0.0)

    def _needs_list(self, failure: KubeError | CredentialsError) -> bool:
        """Whether watching cannot go on from where it was."""
        if isinstance(failure, HistoryError):
            return True
        if not isinstance(failure, ApiError):
            return False
        if failure.is_about_version:
            return True
        code = failure.status_code
        if self._watch_opened_at is None:
            return code not in (401, 403, 429) and code < 500
        # An ERROR event: as in client-go, only being throttled says nothing about the stream.
        return code != 429

    def _watch_seconds(self) -> int:
        most = self._limits.watch_seconds
        return random.randint(most - 1, most)  # noqa: S311  # spreads load, no secret

    def _silence_seconds(self) -> float:
        """How long a server may keep silent: one that is slow, and not gone, must be able to answer in the end."""
        return min(_LONGEST_SILENCE_SECONDS, self._limits.idle_seconds * 2.0 ** max(0, self._silences - 1))


class _Slices:
    """Cuts work that is done in one go into slices, between which other tasks run."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._end = clock() + seconds

    def is_over(self) -> bool:
        """Whether it is time to rest."""
        return self._clock() >= self._end

    async def rest(self) -> None:
        """Let other tasks run, then begin the next slice."""
        for _ in range(_TURNS_BETWEEN_SLICES):
            await asyncio.sleep(0)
        self._end = self._clock() + self._seconds

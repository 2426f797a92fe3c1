"""Keeps a store equal to what the API server has: list, then watch, then whatever a fault makes necessary.

The rules are those of client-go's reflector (tools/cache/reflector.go), with these differences: lists are always paged
and read the latest state; a watch that could not be opened is tried again without a new list, unless the server asks
for one; and what happens to a healthy watch now and then (it is cut, or its version has expired) costs no wait.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from extender_service.kube.api_errors import ApiError, KubeError, SilentWatchError, UnreachableError
from extender_service.kube.backoff import Backoff
from extender_service.kube.client import KubeClient
from extender_service.kube.credentials_error import CredentialsError
from extender_service.kube.resources import Key, Resource, T, key_of
from extender_service.kube.watch import Event

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

    `synced`: the first list has been applied in full. `stale_since`: when the connection to the truth was lost, None
    while a watch is open and healthy. `last_error`: why, None while a watch is open. The counters are for metrics;
    `relists` counts the lists that an expired resource version made necessary.
    """

    stale_since: float | None
    synced: bool = False
    last_error: str | None = None
    last_resource_version: str = ""
    lists: int = 0
    watches: int = 0
    relists: int = 0
    events: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Limits:
    """Sizes and times. Without a byte for `idle_seconds` a watch counts as dead; bookmarks come about once a minute.

    The server is asked to end a watch after `watch_seconds` to twice that. A watch shorter than `short_watch_seconds`
    counts as a failure, and so does one whose version expires so soon after the list. Between slices of
    `slice_seconds`, a list that is being applied lets other tasks run.
    """

    page_size: int = 500
    slice_seconds: float = 0.002
    watch_seconds: float = 300.0
    short_watch_seconds: float = 1.0
    idle_seconds: float = 150.0


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
        self._backoff = backoff or Backoff()
        self._clock = clock
        self._sleep = sleep
        self._synced = asyncio.Event()
        self._must_list = True
        self._listed_at = 0.0
        self._watch_opened_at: float | None = None
        self.state = WatchState(stale_since=clock())

    async def wait_synced(self) -> None:
        """Return once the first list has been applied in full."""
        await self._synced.wait()

    async def run(self) -> None:
        """List and watch until cancelled; only what the store raises ends it otherwise."""
        try:
            while True:
                failure: KubeError | CredentialsError | None = None
                try:
                    if self._must_list:
                        await self._list()
                    await self._watch()
                except (KubeError, CredentialsError) as error:
                    failure = error
                await self._recover(failure)
        finally:
            self._lost(self._clock())

    async def _list(self) -> None:
        """Bring the store to the server's present state: apply all that is there, then remove what is not."""
        started = self._clock()
        self._watch_opened_at = None
        self.state.lists += 1
        slices = _Slices(self._limits.slice_seconds, self._clock)
        listed: set[Key] = set()
        version = ""
        async for page in self._client.list_pages(
            self._resource, field_selector=self._field_selector, limit=self._limits.page_size
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
        self._must_list = False
        self._listed_at = self._clock()
        self.state.last_resource_version = version
        self.state.synced = True
        self._synced.set()
        seconds = self._listed_at - started
        logger.info("%s: listed %d at version %s in %.1f s", self._resource.plural, len(listed), version, seconds)

    async def _watch(self) -> None:
        """Follow the changes until the watch ends."""
        self._watch_opened_at = None
        self.state.watches += 1
        stale_before = self.state.stale_since
        seconds = int(self._limits.watch_seconds * random.uniform(1.0, 2.0))  # noqa: S311  # spreads load, no secret
        async with self._client.watch(
            self._resource,
            self.state.last_resource_version,
            field_selector=self._field_selector,
            timeout_seconds=seconds,
            idle_seconds=self._limits.idle_seconds,
        ) as events:
            opened_at = self._found()
            is_proven = False
            try:
                async for event in events:
                    self._take(event)
                    is_proven = True
            except SilentWatchError:
                self._lost(events.last_byte_at)
                raise
            except ApiError:
                self.state.events["ERROR"] += 1
                raise
            finally:
                self._lost(self._clock())
                if not is_proven and self._clock() - opened_at < self._limits.short_watch_seconds:
                    # A watch that was refused or cut as soon as it was open has mended nothing.
                    self.state.stale_since = stale_before

    def _take(self, event: Event[T]) -> None:
        obj = event.object
        if event.type == "DELETED":
            self._store.remove(key_of(obj))
        elif event.type != "BOOKMARK":
            self._store.apply(obj)
        self.state.events[event.type] += 1
        self.state.last_resource_version = obj.metadata.resource_version

    async def _recover(self, failure: KubeError | CredentialsError | None) -> None:
        """After the end of a watch (no failure) or a failure: decide what comes next, and wait as long as it must."""
        delay = self._delay(failure)
        if failure is not None:
            if isinstance(failure, ApiError) and self._needs_list(failure):
                self._must_list = True
                self.state.relists += failure.expired or failure.too_large_resource_version
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
        elif isinstance(failure, ApiError):
            # Expired: an API server that was started anew does not know the past.
            if failure.expired and not self._must_list and now - self._listed_at >= often:
                return 0.0
            asked = failure.retry_after_seconds or 0.0
        return max(self._backoff.next_delay(), asked)

    def _needs_list(self, refusal: ApiError) -> bool:
        """Whether watching cannot go on from where it was."""
        if refusal.expired or refusal.too_large_resource_version:
            return True
        code = refusal.status_code
        if self._watch_opened_at is None:
            return code not in (401, 403, 429) and code < 500
        # An ERROR event: as in client-go, only being throttled says nothing about the stream.
        return code != 429

    def _found(self) -> float:
        now = self._watch_opened_at = self._clock()
        if self.state.last_error is not None and self.state.stale_since is not None:
            logger.info("%s: watching again after %.1f s", self._resource.plural, now - self.state.stale_since)
        self.state.stale_since = None
        self.state.last_error = None
        return now

    def _lost(self, at: float) -> None:
        if self.state.stale_since is None:
            self.state.stale_since = at


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

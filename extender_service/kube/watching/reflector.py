"""Keeps a store equal to what the API server has: list, then watch, then list or watch again after a fault.

The rules are those of client-go's reflector (tools/cache/reflector.go), with these differences:

- Lists are always paged and read the latest state.
- A watch with a line that cannot be decoded is opened again. Only if the next one fails at the same version, too, is
  there a new list, which leads past the event: otherwise one event could hold up all later ones. client-go always
  lists.
- A watch that could not be opened is tried again without a new list, unless the server asks for one; and what happens
  to a healthy watch now and then (it is cut, or its version has expired) costs no wait.
- Where all watches have failed, as when the API server is down, the first one that it answers ends the waits of the
  others. So tries may be rare, and all watches are open soon after the API server is back. A wait that the API server
  has asked for (Retry-After) lasts for 10 s at least, or all of it if that is less; client-go always waits for all.
- A watch must show that it is alive, because HTTP/1.1 has no ping, and a connection that is cut off silently looks like
  one where nothing happens. A watch that is asked for seconds shows it by its punctual end; to go on over the same
  connection costs both sides little. One that is asked for minutes shows it by the bookmarks that the API server sends
  every minute. It sends them only where its etcd tells it that nothing has happened (--watch-progress-notify-interval,
  up to etcd 3.5 --experimental-watch-progress-notify-interval), so a watch is asked for minutes after one that brought
  a bookmark and nothing else. When a short watch has fallen silent, all others that were not heard since are opened
  again, too.
- After a failure the server must show that it knows the version that was seen. One whose etcd was restored from a
  snapshot would accept the watch, and send no event until its versions reach that one again. (If they reach it before
  we look, we cannot notice; `etcdutl snapshot restore --bump-revision` prevents that.) Events are applied meanwhile,
  also where the answer takes long, or where the server refuses to answer and is asked again later: lists may wait in
  its queue, or be refused with 429, while watches go on. But until then, no watch shows that the store is current.
"""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Generic

from extender_service.kube.api_errors import (
    ApiError,
    DoubtError,
    HistoryError,
    InvalidAnswerError,
    KubeError,
    SilentError,
    UnreachableError,
)
from extender_service.kube.connection.backoff import Backoff
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.connection.event_stream import EventStream
from extender_service.kube.connection.slices import SLICE_SECONDS, Slices
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.resources.api_resources import Frame, Resource, T
from extender_service.kube.types.keys import Key, key_of
from extender_service.kube.types.versions import version_number
from extender_service.kube.watching.interruption import Interruption
from extender_service.kube.watching.store import Store
from extender_service.kube.watching.watch_state import ServerWatches, WatchState
from extender_service.seams import RANDOM

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """Sizes and times.

    - `page_size`: objects in a page of a list
    - `slice_seconds`: a list that is being applied lets other tasks run between slices of this length
    - `watch_seconds`: the server is asked to end a watch after so long
    - `phase_seconds`: by how much the ends of this reflector's watches follow those of one with phase 0
    - `long_watch_seconds`: asked for instead, if given, where the server sends a bookmark every `watch_seconds`
    - `late_seconds`: what is due and comes by so much later has fallen silent
    - `answer_seconds`: within which an answer must begin; after two tries without one, it may take longer
    - `short_watch_seconds`: a shorter watch is a failure, and so is a version that expires so soon after a list
    - `wait_seconds`: between tries while they fail, and at random up to twice as long. client-go waits for up to a
      minute, as thousands of kubelets share the API server: here they are few, and kube-scheduler waits for each
    """

    page_size: int = 500
    slice_seconds: float = SLICE_SECONDS
    watch_seconds: int = 10
    phase_seconds: float = 0.0
    long_watch_seconds: int | None = None
    late_seconds: float = 2.0
    answer_seconds: float = 6.0
    short_watch_seconds: float = 0.5
    wait_seconds: float = 0.5


# After a failure, the server is asked to end a watch soon: its punctual end shows that it brings all events.
_SECONDS_IN_DOUBT = 1
# The API server's own limit for an answer.
_LONGEST_SILENCE_SECONDS = 60.0
# Where bookmarks were missing so often, they come by chance.
_MISSED_BOOKMARKS = 2
# So much of a wait that the API server has asked for is not cut short.
_LEAST_WAIT_SECONDS = 10.0
# A connection that was cut when it had been quiet for longer may have been cut for that.
_LEAST_QUIET_SECONDS = 5.0


class Reflector(Generic[T]):
    """Fills one store with one resource; `state` says at any time how good the store is.

    `on_listed`, which an owner may set, is called with the version of a list once it has been applied in full.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: Resource[T],
        store: Store[T],
        *,
        field_selector: str = "",
        limits: Limits = Limits(),
        server: ServerWatches | None = None,
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Random = RANDOM,
    ) -> None:
        self._client = client
        self.resource = resource
        self.store = store
        self.on_listed: Callable[[str], object] = lambda _: None
        self._field_selector = field_selector
        self._limits = limits
        self._backoff = backoff or Backoff(
            initial_seconds=0.5, limit_seconds=limits.wait_seconds, clock=clock, uniform=random.uniform
        )
        self._clock = clock
        self._random = random
        self._synced = asyncio.Event()
        self._tried = asyncio.Event()
        self._must_list = True
        self._is_in_doubt = False
        self._listed_at = 0.0
        self._heard_in_doubt_at = -math.inf
        self._tried_at = 0.0
        self._watch_opened_at: float | None = None
        self._silences = 0
        self._silent_watches = 0
        self._has_bookmarks = False
        self._missed_bookmarks = 0
        self._undecodable_after: str | None = None
        self._cut_after_seconds = 0.0
        self._most_quiet_seconds = math.inf
        self._interruption = Interruption()
        self._following: EventStream[T] | None = None
        self._comparing: asyncio.Task[HistoryError | None] | None = None
        self._between_tries = _Wait(sleep, clock)
        self._between_comparisons = _Wait(sleep, clock)
        self._overdue: asyncio.TimerHandle | None = None
        self._server = server or ServerWatches(clock)
        self.state = WatchState(heard_at=clock())
        if limits.long_watch_seconds is not None:
            self.state.server = self._server
        self._server.add(self.state, self._doubt, self._try_now)

    async def wait_synced(self) -> None:
        """Return once the first list has been applied in full."""
        await self._synced.wait()

    async def wait_tried(self) -> None:
        """Return once the first list has been applied in full, or has failed: `state` says which."""
        await self._tried.wait()

    async def run(self) -> None:
        """List and watch until cancelled. Raises only what the store raises."""
        try:
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
        finally:
            self._stop_comparing()

    async def _list(self) -> None:
        """Bring the store to the server's present state: apply all that is there, then remove what is not."""
        started = self._clock()
        self.state.lists += 1
        slices = Slices(self._limits.slice_seconds, self._clock)
        listed: set[Key] = set()
        version = ""
        async for page in self._client.list_pages(
            self.resource,
            field_selector=self._field_selector,
            limit=self._limits.page_size,
            silence_seconds=self._answer_seconds(),
        ):
            if not version and self.state.last_error is not None:
                self._server.answers_again()
            version = page.resource_version
            for obj in page.items:
                self.store.apply(obj)
                listed.add(key_of(obj))
                if self._clock() >= slices.end:
                    await slices.rest()
        for key in list(self.store.keys()):
            if key not in listed:
                self.store.remove(key)
            if self._clock() >= slices.end:
                await slices.rest()
        self._must_list = self._is_in_doubt = False
        self._silences = 0
        self._listed_at = self._clock()
        self.state.heard_at = started
        self.state.last_resource_version = version
        self.on_listed(version)
        self.state.synced = True
        self._synced.set()
        self._tried.set()
        seconds = self._listed_at - started
        log.info("%s: listed %d at version %s in %.1f s", self.resource.plural, len(listed), version, seconds)

    async def _watch(self) -> None:
        """Follow the changes until the watch ends."""
        self.state.watches += 1
        seconds = self._watch_seconds()
        async with self._client.watch(
            self.resource,
            self.state.last_resource_version,
            field_selector=self._field_selector,
            timeout_seconds=seconds,
            answer_seconds=self._answer_seconds(),
        ) as events:
            opened_at = self._watch_opened_at = self.state.opened_at = self._clock()
            # While versions are being compared, it is lists that fail, not watches.
            if self.state.last_error is not None and self._comparing is None:
                self._server.answers_again()
            try:
                async with Interruption() as self._interruption:
                    self._following = events
                    if self._is_in_doubt:
                        self._compare_versions()
                    else:
                        self._trust(events)
                    self._end_if_overdue(events, opened_at, seconds)
                    await self._follow(events)
            except InvalidAnswerError:
                version = self.state.last_resource_version
                self._must_list = version == self._undecodable_after
                self._undecodable_after = version
                raise
            except UnreachableError as error:
                self._learn(error, max(opened_at, events.current_at))
                raise
            finally:
                self._following = None
                self.state.heard_at = self.state.current_at
                self.state.watch = None
                if self._overdue is not None:
                    self._overdue.cancel()
                    self._overdue = None

    def _trust(self, events: EventStream[T]) -> None:
        """Let the watch that is open show that the store is current."""
        self._silences = 0
        if self.state.last_error is not None:
            seconds = self.state.opened_at - self.state.heard_at
            log.info("%s: watching again after %.1f s", self.resource.plural, seconds)
        self.state.heard_at = max(self.state.heard_at, self._heard_in_doubt_at)
        self.state.watch, self.state.last_error = events, None

    async def _follow(self, events: EventStream[T]) -> None:
        """Apply events until the watch ends."""
        kinds: set[str] = set()
        try:
            async for event in events:
                self._take(event)
                kinds.add(event.type)
        except ApiError:
            self.state.events["ERROR"] += 1
            raise
        ended_at = self._clock()
        if ended_at - self.state.opened_at >= self._limits.short_watch_seconds:
            if self._is_in_doubt:
                self._heard_in_doubt_at = ended_at
            else:
                self.state.heard_at = ended_at
        self._silent_watches = 0
        self._has_bookmarks = self._has_bookmarks or kinds == {"BOOKMARK"}

    def _learn(self, error: UnreachableError, heard_at: float) -> None:
        """Adapt the next steps to how a watch failed that last received something at `heard_at`."""
        self._has_bookmarks = False
        if isinstance(error, SilentError):
            self._silent_watches += 1
            is_short = self._limits.long_watch_seconds is None
            if is_short and self._silent_watches == 1:
                self._server.fell_silent(self._clock() - self._limits.late_seconds)
            # Much may have happened, or the server does not end watches in time: a list shows what there is.
            self._must_list = self._must_list or not is_short or self._silent_watches > 1
        elif not isinstance(error, DoubtError):
            # A proxy or load balancer may cut connections over which nothing comes for a while.
            quiet_seconds = self._clock() - heard_at
            if quiet_seconds > _LEAST_QUIET_SECONDS and abs(quiet_seconds - self._cut_after_seconds) < 1.0:
                self._most_quiet_seconds = min(self._most_quiet_seconds, 0.75 * quiet_seconds)
            self._cut_after_seconds = quiet_seconds

    def _end_if_overdue(self, events: EventStream[T], opened_at: float, seconds: float) -> None:
        """End a watch if nothing has come that should have by now; otherwise look again in time."""
        now, heard_at = self._clock(), max(events.current_at, opened_at)
        is_long = seconds > self._limits.watch_seconds
        if is_long:  # a bookmark is due
            due_at = heard_at + self._limits.watch_seconds
        else:  # its end is due; where the server does not care, anything else is as good
            due_at = (heard_at if heard_at > opened_at + seconds else opened_at) + seconds
        left = due_at + self._limits.late_seconds - now
        if left > 0:
            loop = asyncio.get_running_loop()
            self._overdue = loop.call_later(left, self._end_if_overdue, events, opened_at, seconds)
        elif is_long:
            self._missed_bookmarks += 1
            self._interruption.interrupt(DoubtError(f"no bookmark came for {now - heard_at:.0f} s"))
        else:
            text = f"the watch did not end in time, and nothing came for {now - heard_at:.1f} s"
            self._interruption.interrupt(SilentError(text, now - heard_at))

    def _doubt(self, since: float) -> None:
        """Open the watch again, unless it was heard since then."""
        # In doubt, it is followed before it is that of the state.
        heard_at = -math.inf if self._following is None else self._following.current_at
        if max(heard_at, self.state.seen_at, self.state.opened_at) <= since:
            self._interruption.interrupt(DoubtError("nothing came since another watch fell silent"))

    def _compare_versions(self) -> None:
        """Trust the watch that is open, or end it, once it is known whether the server knows the version seen last.

        The question stays the same, however many watches come and end until the server answers it.
        """
        if self._comparing is None:
            self._comparing = asyncio.create_task(self._problem_of_server(self.state.last_resource_version))
            self._comparing.add_done_callback(self._end_comparing)
        elif self._comparing.done():
            self._end_comparing(self._comparing)

    async def _problem_of_server(self, seen: str) -> HistoryError | None:
        """Return a HistoryError if the server does not know a version, None if it does.

        Until it answers, it is asked again: what keeps it from answering a list, such as too many requests, says
        nothing about the watch. If the watch fails, too, that ends the question.
        """
        await self._between_comparisons.rest()  # of an earlier question
        has_failed = False
        while True:
            try:
                latest = await self._client.latest_version(self.resource, silence_seconds=self._answer_seconds())
            except (KubeError, CredentialsError) as error:
                has_failed = True
                await self._put_off_comparing(error)
            else:
                if has_failed:
                    self._server.answers_again()
                if 0 < version_number(latest) < version_number(seen):
                    text = f"the API server is at version {latest}, before {seen}: etcd has been restored"
                    return HistoryError(text)
                return None

    async def _put_off_comparing(self, failure: KubeError | CredentialsError) -> None:
        """Wait before the server is asked for its version again; the watch goes on."""
        waited_seconds = 0.0
        if isinstance(failure, SilentError):
            self._silences += 1
            waited_seconds = failure.seconds
        delay = self._backed_off_seconds(failure, waited_seconds)
        text = str(failure)
        level = logging.DEBUG if text == self.state.last_error else logging.WARNING
        log.log(level, "%s: %s; the watch goes on, next list in %.1f s", self.resource.plural, text, delay)
        self.state.last_error = text
        await self._between_comparisons.wait(delay, failure)

    def _end_comparing(self, comparing: asyncio.Task[HistoryError | None]) -> None:
        """Act by the outcome. Between two watches, the next one does."""
        if comparing.cancelled() or comparing is not self._comparing or self._following is None:
            return
        self._comparing = None
        failure = comparing.result()
        if failure is None:
            self._is_in_doubt = False
            self._trust(self._following)
        else:
            self._interruption.interrupt(failure)

    def _stop_comparing(self) -> None:
        comparing, self._comparing = self._comparing, None
        if comparing is not None:
            comparing.cancel()

    def _take(self, event: Frame[T]) -> None:
        obj = event.object
        version = obj.metadata.resource_version
        if not version:
            raise InvalidAnswerError("an event of the watch has no resource version")
        if event.type == "DELETED":
            self.store.remove(key_of(obj))
        elif event.type != "BOOKMARK":
            self.store.apply(obj)
        self.state.events[event.type] += 1
        self.state.last_resource_version = version

    async def _recover(self, failure: KubeError | CredentialsError | None) -> None:
        """After the end of a watch (no failure) or a failure: decide what comes next, and wait as long as it must."""
        delay = self._delay(failure)
        if failure is not None:
            self._is_in_doubt = True
            self._heard_in_doubt_at = -math.inf
            self._stop_comparing()  # it was asked before the failure
            if isinstance(failure, SilentError) and self._watch_opened_at is None:
                self._silences += 1
            if self._needs_list(failure):
                self._must_list = True
                self.state.relists += not isinstance(failure, ApiError) or failure.is_about_version
            text = str(failure)
            level = logging.INFO if isinstance(failure, DoubtError) else logging.WARNING
            level = logging.DEBUG if text == self.state.last_error else level
            step = "list" if self._must_list else "watch"
            log.log(level, "%s: %s; next %s in %.1f s", self.resource.plural, text, step, delay)
            self.state.last_error = text
            self._tried.set()
        await self._between_tries.wait(delay, failure)

    def _try_now(self) -> None:
        self._between_tries.cut_short()
        self._between_comparisons.cut_short()

    def _delay(self, failure: KubeError | CredentialsError | None) -> float:
        """Return the seconds to wait: none for what happens to a healthy watch now and then, if not too often."""
        now, often = self._clock(), self._limits.short_watch_seconds
        if failure is None or isinstance(failure, UnreachableError):
            # It was closed or cut. A watch that could not even be opened is another matter.
            if self._watch_opened_at is not None and now - self._watch_opened_at >= often:
                return 0.0
        elif isinstance(failure, HistoryError):
            return 0.0
        elif (
            isinstance(failure, ApiError) and failure.expired and not self._must_list and now - self._listed_at >= often
        ):
            # An API server that was restarted does not know earlier versions.
            return 0.0
        waited_seconds = now - self._tried_at if isinstance(failure, SilentError) else 0.0
        return self._backed_off_seconds(failure, waited_seconds)

    def _backed_off_seconds(self, failure: KubeError | CredentialsError | None, waited_seconds: float) -> float:
        """Count one more failure, and return the seconds until the next try: as many as the server asks for, or more.

        `waited_seconds`, in which no answer came, count as waiting, too.
        """
        asked_seconds = failure.retry_after_seconds if isinstance(failure, ApiError) else None
        return max(self._backoff.next_delay() - waited_seconds, asked_seconds or 0.0)

    def _needs_list(self, failure: KubeError | CredentialsError) -> bool:
        """Return whether the reflector must list, because it cannot watch on from the last version."""
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
        """Return how long the next watch is to last."""
        limits = self._limits
        if self._is_in_doubt and self._comparing is None:
            return _SECONDS_IN_DOUBT
        most = limits.watch_seconds
        if limits.long_watch_seconds is None:
            # With two phases, one watch ends while the other goes on: what silences both is noticed sooner.
            passed = (self._clock() - self._server.begun_at - limits.phase_seconds) % most
            return max(most - round(passed) % most, most // 3, 1)
        if self._has_bookmarks and self._missed_bookmarks < _MISSED_BOOKMARKS:
            most = limits.long_watch_seconds
        most = int(min(most, self._most_quiet_seconds))
        # Each ends at a moment of its own, so that those of many kinds do not start again all at once.
        return self._random.randint(most * 5 // 6, most)

    def _answer_seconds(self) -> float:
        """Return the seconds within which an answer must begin: more after two tries, for a server that is slow."""
        return min(_LONGEST_SILENCE_SECONDS, self._limits.answer_seconds * 2.0 ** max(0, self._silences - 1))


class _Wait:
    """Waits for the next try, but only until the API server answers another reflector.

    Where the API server has asked for the wait, it lasts for 10 s all the same. So does a wait after one that was cut
    short: two watches that fail in turns do not drive each other.
    """

    def __init__(self, sleep: Callable[[float], Awaitable[None]], clock: Callable[[], float]) -> None:
        self._sleep = sleep
        self._clock = clock
        self._asked_until = -math.inf
        self._waiting = Interruption()
        self._was_cut_short = False
        self._is_answered_again = False

    async def wait(self, seconds: float, failure: KubeError | CredentialsError | None) -> None:
        """Wait after a failure, or after the end of a watch."""
        is_asked = isinstance(failure, ApiError) and failure.retry_after_seconds is not None
        if is_asked or self._was_cut_short:
            self._was_cut_short = self._is_answered_again = False
            least_seconds = min(seconds, _LEAST_WAIT_SECONDS)
            if is_asked:
                self._asked_until = self._clock() + least_seconds
            await self._sleep(least_seconds)
            seconds -= least_seconds
            if self._is_answered_again or not seconds:
                self._was_cut_short = seconds > 0
                return
        try:
            async with Interruption() as self._waiting:
                await self._sleep(seconds)
        except _AnswersAgain:
            self._was_cut_short = True

    async def rest(self) -> None:
        """Wait for as long as the API server has asked for it, where the task that waited was cancelled before."""
        seconds = self._asked_until - self._clock()
        if seconds > 0:
            await self._sleep(seconds)

    def cut_short(self) -> None:
        """End the wait, as far as it may be: the API server answers again."""
        self._is_answered_again = True
        self._waiting.interrupt(_AnswersAgain())


class _AnswersAgain(Exception):  # noqa: N818 - is no error
    """The API server answers again."""

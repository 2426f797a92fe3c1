"""Which of several pairs of kube-scheduler and service may work: each service knows its own placements alone.

kube-schedulers elect a leader, but the lease by itself does not keep a former one from placing pods: it goes on for as
long as its renew deadline (10 s), and when it is killed its bindings that wait in Permit or PreBind go on here. So the
service reads the lease, too. It works only while a kube-scheduler of its own host holds it, and undoes what waits once
that is over.

An answer counts for `good_seconds` from the moment at which it was asked for, and a new holder waits for as long before
it answers its first call: by then nothing counts any more that its predecessor has read. Readings do not wait for each
other, and begin the closer together the longer they take, so that one answer counts until the next is there.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from extender_service.kube.api_errors import KubeError
from extender_service.kube.credentials.errors import CredentialsError

log = logging.getLogger(__name__)


# How much slower than any of late the next answer may be.
_MARGIN_SECONDS = 0.2
_CLOSEST_SECONDS = 0.2
# How much of a slow answer is remembered with each that follows: half after some 35.
_REMEMBERED = 0.98


@dataclass(frozen=True)
class LeaseTimes:
    """How often the lease is read at least, how long that counts, and how long a call waits until it is held here.

    `patience_seconds` is below kube-scheduler's httpTimeout of 5 s: it calls as soon as it holds the lease, before the
    service has read that.
    """

    read_seconds: float = 1.0
    good_seconds: float = 2.0
    patience_seconds: float = 4.0


class Leadership:
    """Whether a kube-scheduler of this host holds the lease, as far as is known while `follow` runs."""

    def __init__(
        self,
        read_holder: Callable[[], Awaitable[str]],
        host: str,
        *,
        times: LeaseTimes = LeaseTimes(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`read_holder` may raise KubeError and CredentialsError; `host` is the name of the host that is to lead."""
        self._read_holder = read_holder
        self._prefix = f"{host}_"
        self._times = times
        self._clock = clock
        self._holder: str | None = None
        self._is_held = False
        self._error = "it has not been read yet who holds the lease"
        self._news = asyncio.Event()
        self._under_way: set[float] = set()  # when they were begun
        self._slowest_seconds = 0.0
        self._counts_from = self._asked_at = clock()

    def problem(self) -> str | None:
        """Say why this service may not work now; None if it may."""
        now = self._clock()
        if self._holder is None:
            return self._error
        if not self._is_held:
            return f"the lease is held by {self._holder}" if self._holder else "the lease is not held"
        age, good = now - self._asked_at, self._times.good_seconds
        if age >= good:
            return f"who holds the lease was read {age:.1f} s ago, and that counts for {good:g} s: {self._error}"
        return "the lease was taken just now, its last holder may not know yet" if now < self._counts_from else None

    async def wait(self) -> None:
        """Wait until this service may work, for as long as its caller has patience."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._times.patience_seconds):
                while self.problem() is not None:
                    await self._wait_for_news()

    async def _wait_for_news(self) -> None:
        """Wait for the next answer, or until a lease that was taken just now counts."""
        seconds = self._counts_from - self._clock()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds if self._is_held and seconds > 0 else None):
                await self._news.wait()

    async def follow(self, on_lost: Callable[[], None]) -> None:
        """Read the lease again and again; call `on_lost` when the one who held it here does not any more."""
        async with asyncio.TaskGroup() as readings:
            while True:
                begun_at = self._clock()
                self._under_way.add(begun_at)
                readings.create_task(self._read(begun_at, on_lost))
                await asyncio.sleep(max(self._next_at(begun_at) - self._clock(), 0.0))

    def _next_at(self, begun_at: float) -> float:
        """Return when to begin the next reading, so that its answer comes while the last one before it counts."""
        good = self._times.good_seconds
        in_time = begun_at + good - self._slowest_seconds - _MARGIN_SECONDS
        # One that is still under way at that time will have taken as long.
        in_time = min(in_time, (begun_at + min(self._under_way) + good) / 2)
        return min(max(in_time, begun_at + _CLOSEST_SECONDS), begun_at + self._times.read_seconds)

    async def _read(self, begun_at: float, on_lost: Callable[[], None]) -> None:
        good = self._times.good_seconds
        try:
            async with asyncio.timeout(good):
                holder = await self._read_holder()
        except TimeoutError:
            self._error = f"the API server took longer than {good:g} s to answer, and its answer counts for no longer"
        except (KubeError, CredentialsError) as error:
            self._error = str(error)
        else:
            if begun_at >= self._asked_at:  # otherwise a later reading was answered before
                self._take(holder, begun_at, on_lost)
        finally:
            self._under_way.discard(begun_at)
            self._slowest_seconds = max(self._clock() - begun_at, self._slowest_seconds * _REMEMBERED)

    def _take(self, holder: str, asked_at: float, on_lost: Callable[[], None]) -> None:
        if holder != self._holder:
            self._holder = holder
            log.info("another holds the lease", extra={"holder": holder})
            if self._is_held:
                self._is_held = False
                on_lost()
            if holder.startswith(self._prefix):
                self._is_held = True
                self._counts_from = self._clock() + self._times.good_seconds
        self._asked_at = asked_at
        self._error = "the next answer has not come yet"
        self._news.set()
        self._news = asyncio.Event()

"""Which of several pairs of kube-scheduler and service may work: each service knows only its own placements.

kube-schedulers elect a leader, but the lease alone does not keep a former leader from placing pods: it continues until
its renew deadline (10 s), and if it is killed, its bindings that wait in Permit or PreBind continue in this service. So
the service reads the lease, too. It works only while a kube-scheduler of its own host holds the lease. When that ends,
it undoes the bindings that wait.

An answer is valid for `good_seconds` from the moment of the request. The service of a new holder waits for the same
time before it answers its first call: by then, no answer that its predecessor has read is still valid. Reads do not
wait for each other. The longer they take, the closer together they begin, so that an answer is valid until the next one
arrives.
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


# By how much the next answer may be slower than any recent one.
_MARGIN_SECONDS = 0.2
_CLOSEST_SECONDS = 0.2
# Factor by which the memory of a slow answer decays with each following answer: half is left after some 35.
_REMEMBERED = 0.98


@dataclass(frozen=True)
class LeaseTimes:
    """How often the lease is read at least, how long an answer is valid, and how long a call waits for leadership.

    `patience_seconds` is below kube-scheduler's httpTimeout of 5 s: kube-scheduler calls as soon as it holds the lease,
    before the service has read that.
    """

    read_seconds: float = 1.0
    good_seconds: float = 2.0
    patience_seconds: float = 4.0


class Leadership:
    """Whether a kube-scheduler of this host holds the lease, as known while `follow` runs."""

    def __init__(
        self,
        read_holder: Callable[[], Awaitable[str]],
        host: str,
        *,
        times: LeaseTimes = LeaseTimes(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`read_holder` may raise KubeError and CredentialsError; `host` is the name of this service's own host."""
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
        """Return why this service may not work now; None if it may."""
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
        """Wait for the next answer, or until a lease that was taken just now is valid here."""
        seconds = self._counts_from - self._clock()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds if self._is_held and seconds > 0 else None):
                await self._news.wait()

    async def follow(self, on_lost: Callable[[], None]) -> None:
        """Read the lease again and again; call `on_lost` when the kube-scheduler of this host has lost it."""
        async with asyncio.TaskGroup() as readings:
            while True:
                begun_at = self._clock()
                self._under_way.add(begun_at)
                readings.create_task(self._read(begun_at, on_lost))
                await asyncio.sleep(max(self._next_at(begun_at) - self._clock(), 0.0))

    def _next_at(self, begun_at: float) -> float:
        """Return when to begin the next read, so that its answer arrives while the one before is still valid."""
        good = self._times.good_seconds
        in_time = begun_at + good - self._slowest_seconds - _MARGIN_SECONDS
        # A read that is still under way at that time will have taken as long.
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
            if begun_at >= self._asked_at:  # otherwise a later read was answered first
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

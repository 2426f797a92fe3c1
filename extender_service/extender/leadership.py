"""Which of several pairs of kube-scheduler and service may work: each service knows its own placements alone.

kube-schedulers elect a leader, but the lease by itself does not keep a former one from placing pods: it goes on for as
long as its renew deadline (10 s), and when it is killed its bindings that wait in Permit or PreBind go on here. So the
service reads the lease, too. It works only while a kube-scheduler of its own host holds it, and undoes what waits once
that is over.

What was read counts for `good_seconds` from the moment it was asked for, and who is new waits for as long before its
first answer: by then nothing counts any more that its predecessor has read.
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


@dataclass(frozen=True)
class LeaseTimes:
    """How often the lease is read, how long that counts, and how long a call waits for the lease to be held here.

    A reading takes at most `read_seconds`, so that it counts until the next one is there. `patience_seconds` is below
    kube-scheduler's httpTimeout of 5 s: it calls as soon as it holds the lease, before anybody here has read that.
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
        self._error = "nobody has read yet who leads"
        self._held = asyncio.Event()
        self._counts_from = self._counts_until = clock()

    def problem(self) -> str | None:
        """Say why this service may not work now; None if it may."""
        now = self._clock()
        if self._holder is None:
            return self._error
        if not self._held.is_set():
            return f"the lease is held by {self._holder}" if self._holder else "nobody holds the lease"
        if now >= self._counts_until:
            return f"who leads was read too long ago: {self._error}"
        return "the lease was taken just now, its last holder may not know yet" if now < self._counts_from else None

    async def wait(self) -> None:
        """Wait until this service may work, for as long as its caller has patience."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._times.patience_seconds):
                await self._held.wait()
                await asyncio.sleep(max(self._counts_from - self._clock(), 0.0))

    async def follow(self, on_lost: Callable[[], None]) -> None:
        """Read the lease again and again; call `on_lost` when the one who held it here does not any more."""
        while True:
            started = self._clock()
            try:
                async with asyncio.timeout(self._times.read_seconds):
                    holder = await self._read_holder()
            except (KubeError, CredentialsError, TimeoutError) as error:
                self._error = str(error) or "no answer in time"
            else:
                self._take(holder, started, on_lost)
            await asyncio.sleep(max(started + self._times.read_seconds - self._clock(), 0.0))

    def _take(self, holder: str, asked_at: float, on_lost: Callable[[], None]) -> None:
        if holder != self._holder:
            self._holder = holder
            log.info("another holds the lease", extra={"holder": holder})
            if self._held.is_set():
                self._held.clear()
                on_lost()
            if holder.startswith(self._prefix):
                self._held.set()
                self._counts_from = self._clock() + self._times.good_seconds
        self._counts_until = asked_at + self._times.good_seconds
        self._error = "it takes too long to read"

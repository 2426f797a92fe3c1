"""Leader election over a lease, as client-go's (tools/leaderelection/leaderelection.go): one of several replicas works.

    acquire ──▶ leads ──renewed every retry_seconds──▶ leads ──not renewed for renew_seconds──▶ lost: the process ends
                  └────────────── stopped ──▶ release: another replica may take the lease at once

Two clocks are never compared. A replica takes a lease that has not changed, as it has seen, for the time that the lease
itself names (15 s); the leader stops writing earlier, `renew_seconds` (10 s) after it began its last renewal. Its clock
counts the time in which it was stopped, so a leader that was frozen knows that it may not write before it has read
anything. `problem` is the check, to be made right before each write.

Differs from client-go where that only helps: a leader that reads that another one holds the lease ends at once, instead
of trying for its renew deadline; a lease that changed between two reads within a second counts as changed; a release
that comes after an unanswered renewal reads the lease and tries again.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final, Protocol

from extender_service.kube.api_errors import ApiError, KubeError
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.writing.leases import LeaseRecord
from extender_service.seams import Clock, Draw, Sleep

log = logging.getLogger(__name__)

# How much longer than retry_seconds, at most, a replica that waits for the lease pauses: times this factor.
JITTER_FACTOR: Final = 1.2
# /healthz fails if a leader has neither renewed its lease nor ended for so long after the lease's end.
TOLERATED_SECONDS: Final = 20.0


@dataclass(frozen=True)
class ElectionTimes:
    """leaseDuration, renewDeadline and retryPeriod of LeaderElectionConfiguration, in seconds."""

    lease_seconds: float = 15.0
    renew_seconds: float = 10.0
    retry_seconds: float = 2.0

    @property
    def recorded_seconds(self) -> int:
        """What the lease says: whole seconds."""
        return int(self.lease_seconds)

    @property
    def writing_seconds(self) -> float:
        """How long after the beginning of a renewal its leader may write."""
        return min(self.renew_seconds, self.recorded_seconds)


class ElectionLock(Protocol):
    """The lease. All methods raise KubeError and CredentialsError; see LeaseLock."""

    identity: str

    async def get(self) -> LeaseRecord | None:
        """Return the lease as it is now; None if there is none."""

    async def create(self, record: LeaseRecord) -> None:
        """Create the lease."""

    async def update(self, record: LeaseRecord) -> None:
        """Write the record, if the lease has not changed since it was read or written last."""

    def now(self) -> str:
        """Return the time for a record."""


class LeaderElector:
    """Takes part in an election. Call `acquire`, then `renew`, then `release` if `renew` was cancelled.

    `clock` must run on while the process is stopped (seams.BOOT_CLOCK). `slow_paths` counts the renewals that had to
    read the lease first.
    """

    def __init__(self, lock: ElectionLock, times: ElectionTimes, *, clock: Clock, sleep: Sleep, draw: Draw) -> None:
        self.slow_paths = 0
        self._lock = lock
        self._times = times
        self._clock = clock
        self._sleep = sleep
        self._draw = draw
        self._observed: LeaseRecord | None = None
        self._observed_at = 0.0
        # When the last renewal that was answered began; None if this replica does not lead.
        self._renewed_at: float | None = None

    @property
    def holder(self) -> str:
        """The identity that held the lease when it was last read or written; empty if none is known."""
        return "" if self._observed is None else self._observed.holder_identity

    @property
    def is_leader(self) -> bool:
        """Whether this replica held the lease then."""
        return self.holder == self._lock.identity

    def problem(self) -> str | None:
        """Return why this replica may not write now; None if it may."""
        if self._renewed_at is None:
            return f"this replica does not hold the lease {self._lock}"
        age = self._clock() - self._renewed_at
        if age >= self._times.writing_seconds:
            limit = self._times.writing_seconds
            return f"the lease {self._lock} was renewed {age:.1f} s ago, and a leader may write for {limit:g} s"
        return None

    def health_problem(self) -> str | None:
        """Return what is wrong if this replica neither renewed its lease nor ended (healthzadaptor.go)."""
        silent_seconds = self._clock() - self._observed_at
        if self.is_leader and silent_seconds > self._times.lease_seconds + TOLERATED_SECONDS:
            return f"failed election to renew leadership on lease {self._lock}"
        return None

    async def acquire(self) -> None:
        """Wait until this replica leads."""
        log.info("attempting to acquire the leader lease", extra={"lease": str(self._lock)})
        known = None
        while not await self._try():
            if self.holder != known:
                known = self.holder
                log.info("another replica leads", extra={"lease": str(self._lock), "holder": known})
            pause_seconds = self._times.retry_seconds * (1 + JITTER_FACTOR * self._draw())
            await self._sleep(pause_seconds)
        log.info("acquired the leader lease", extra={"lease": str(self._lock), "identity": self._lock.identity})

    async def renew(self) -> None:
        """Renew the lease, until it is lost: then return. May be cancelled."""
        while await self._renew_in_time():
            await self._sleep(self._times.retry_seconds)
        self._renewed_at = None
        log.error("lost the leader lease", extra={"lease": str(self._lock), "holder": self.holder})

    async def release(self) -> None:
        """Give the lease up, so that another replica need not wait for its end. A failure is logged."""
        self._renewed_at = None
        if not self.is_leader:
            return
        try:
            async with asyncio.timeout(self._times.renew_seconds):
                await self._release()
        except (KubeError, CredentialsError, TimeoutError) as error:
            log.warning("cannot release the leader lease", extra={"lease": str(self._lock), "error": str(error)})
        else:
            log.info("released the leader lease", extra={"lease": str(self._lock)})

    async def _release(self) -> None:
        try:
            await self._lock.update(self._released())
        except ApiError as error:
            if error.status_code != 409:
                raise
            # A renewal whose answer did not come may have been carried out.
            self._observe(await self._lock.get())
            if self.is_leader:
                await self._lock.update(self._released())

    def _released(self) -> LeaseRecord:
        assert self._observed is not None
        now = self._lock.now()
        return LeaseRecord("", 1, acquire_time=now, renew_time=now, transitions=self._observed.transitions)

    async def _renew_in_time(self) -> bool:
        """Try to renew for renew_seconds; return whether this replica still leads."""
        give_up_at = self._clock() + self._times.renew_seconds
        while (left_seconds := give_up_at - self._clock()) > 0:
            try:
                async with asyncio.timeout(left_seconds):
                    if await self._try():
                        return True
            except TimeoutError:
                return False
            if not self.is_leader:
                return False
            await self._sleep(self._times.retry_seconds)
        return False

    async def _try(self) -> bool:
        """Try once to acquire or renew the lease (tryAcquireOrRenew)."""
        begun_at = self._clock()
        try:
            record = await self._write()
        except (KubeError, CredentialsError) as error:
            log.warning("cannot acquire or renew the lease", extra={"lease": str(self._lock), "error": str(error)})
            return False
        if record is None:
            return False
        self._observe(record)
        self._renewed_at = begun_at
        return True

    async def _write(self) -> LeaseRecord | None:
        """Write the lease with this replica as the holder; None if another one holds it. Raises as the lock does."""
        if self.is_leader and self._is_valid():
            record = self._record(self._observed)
            try:
                await self._lock.update(record)
            except KubeError as error:
                log.info("reading the lease, as its renewal failed", extra={"error": str(error)})
            else:
                return record
        found = await self._lock.get()
        if found is None:
            record = self._record(None)
            await self._lock.create(record)
            return record
        if found != self._observed:
            self._observe(found)
        if not self.is_leader:
            self._renewed_at = None
            if self.holder and self._is_valid():
                return None
        else:
            self.slow_paths += 1
        record = self._record(self._observed)
        await self._lock.update(record)
        return record

    def _record(self, before: LeaseRecord | None) -> LeaseRecord:
        """Return the record to write, where `before` is the one that stands."""
        now = self._lock.now()
        identity, seconds = self._lock.identity, self._times.recorded_seconds
        if before is None:
            return LeaseRecord(identity, seconds, acquire_time=now, renew_time=now, transitions=0)
        if before.holder_identity == identity:
            return LeaseRecord(
                identity, seconds, acquire_time=before.acquire_time, renew_time=now, transitions=before.transitions
            )
        return LeaseRecord(identity, seconds, acquire_time=now, renew_time=now, transitions=before.transitions + 1)

    def _observe(self, record: LeaseRecord | None) -> None:
        self._observed = record
        self._observed_at = self._clock()

    def _is_valid(self) -> bool:
        """Return whether the lease, as it was seen to change last, has not ended."""
        assert self._observed is not None
        return self._observed_at + self._observed.lease_duration_seconds > self._clock()

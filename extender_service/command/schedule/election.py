"""Makes this process a candidate for leadership, as the configuration's leaderElection says."""

import asyncio
import logging
import uuid
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from extender_service.command.start_error import StartError
from extender_service.config.types import LeaderElectionConfiguration
from extender_service.framework.guard import CycleError
from extender_service.kube.api_errors import KubeError
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.writing.leases import LeaseLock
from extender_service.scheduler.leader_election import JITTER_FACTOR, ElectionTimes, LeaderElector
from extender_service.seams import Machine

log = logging.getLogger(__name__)


class LeaseLostError(Exception):
    """Another replica leads, or may soon: this process must end."""


class Candidacy:
    """This process as a candidate. Without an election (`election` None) it leads from the start."""

    def __init__(
        self, election: LeaderElectionConfiguration | None, client: KubeClient, component: str, machine: Machine
    ) -> None:
        """`client` must be the election's own. `component` is the source of the lease's events.

        Raises StartError if the times do not fit each other.
        """
        self._is_leading = False
        self._writes: set[asyncio.Task[None]] = set()
        self.elector: LeaderElector | None = None
        if election is None:
            return
        times = _times(election)
        self._lock = LeaseLock(
            client,
            election.resource_namespace,
            election.resource_name,
            f"{machine.host_name()}_{uuid.UUID(int=machine.random.getrandbits(128), version=4)}",
            answer_seconds=max(1.0, times.renew_seconds / 2),  # one request that hangs does not lose the lease
            component=component,
            clock_ns=machine.wall_clock_ns,
        )
        self.elector = LeaderElector(
            self._lock, times, clock=machine.boot_clock, sleep=asyncio.sleep, draw=machine.random.random
        )

    @property
    def is_leading(self) -> bool:
        """Whether this process has begun to lead, and has not stopped."""
        return self._is_leading

    def write_problem(self) -> str | None:
        """Return why this process may not write now; None if it may."""
        return None if self.elector is None else self.elector.problem()

    def require_lead(self) -> None:
        """Raise CycleError if this process may not bind now."""
        if (problem := self.write_problem()) is not None:
            raise CycleError(problem)

    async def acquire(self) -> None:
        """Return once this process leads."""
        if self.elector is not None:
            await self.elector.acquire()
            self._announce("became leader")
        self._is_leading = True

    async def lead(self, work: Coroutine[Any, Any, None]) -> None:
        """Work as the leader; then release the lease. Raises LeaseLostError if the lease is lost before that."""
        if self.elector is None:
            await work
            return
        working, renewing = asyncio.create_task(work), asyncio.create_task(self.elector.renew())
        await asyncio.wait([working, renewing], return_when=asyncio.FIRST_COMPLETED)
        self._is_leading = working.done()
        if not working.done():
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            raise LeaseLostError
        renewing.cancel()
        with suppress(asyncio.CancelledError):
            await renewing
        await self.elector.release()
        self._is_leading = False
        self._announce("stopped leading")
        await asyncio.gather(*self._writes)
        working.result()

    def _announce(self, message: str) -> None:
        task = asyncio.create_task(self._record(message))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    async def _record(self, message: str) -> None:
        try:
            await self._lock.record_event(message)
        except (KubeError, CredentialsError) as error:
            log.warning("an event of the lease could not be written", extra={"lease": self._lock, "error": str(error)})


def _times(election: LeaderElectionConfiguration) -> ElectionTimes:
    times = ElectionTimes(
        election.lease_duration.seconds, election.renew_deadline.seconds, election.retry_period.seconds
    )
    if times.renew_seconds <= JITTER_FACTOR * times.retry_seconds:
        raise StartError(
            f"leaderElection.renewDeadline: {election.renew_deadline} must be greater than {JITTER_FACTOR} times "
            f"retryPeriod ({election.retry_period})"
        )
    return times

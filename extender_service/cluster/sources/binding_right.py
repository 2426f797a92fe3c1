"""Whether the API server allows us to bind pods: without the right to create pods/binding, each binding gets a 403.

Readiness fails only where the API server says that the right is missing. It does not where the API server does not
answer in time, may not be asked, or does not know: binding pods may work.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from extender_service.cluster.state.cluster import Cluster
from extender_service.kube.api_errors import KubeError
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.reviews.access_reviews import UncertainReviewError
from extender_service.kube.types.workloads import Namespace

log = logging.getLogger(__name__)

MISSING = "missing right: create pods/binding (the ClusterRole system:kube-scheduler has it)"
_NOT_ASKED = "it is not known yet whether pods may be bound"


@dataclass(frozen=True)
class ReviewTimes:
    """How long all answers may take, when to ask again unless the right is there, and how soon at the earliest."""

    answer_seconds: float = 5.0
    again_seconds: float = 10.0
    closest_seconds: float = 1.0


class BindingRight:
    """Whether pods may be bound in any namespace, as known while `follow` runs."""

    def __init__(
        self,
        may_bind: Callable[[str], Awaitable[bool]],
        cluster: Cluster,
        *,
        times: ReviewTimes = ReviewTimes(),
    ) -> None:
        """`may_bind` asks about a namespace, or about all if it is empty (`access_reviews.may_bind_pods`).

        It may raise UncertainReviewError, KubeError and CredentialsError.
        """
        self._may_bind = may_bind
        self._cluster = cluster
        self._times = times
        self._problem: str | None = _NOT_ASKED
        self._is_certain = False
        self._doubted = asyncio.Event()

    def problem(self) -> str | None:
        """Return why no pod can be bound; None if pods can, or if that is not certain."""
        return self._problem

    def doubt(self) -> None:
        """Ask again soon: the API server refused a binding."""
        self._doubted.set()

    async def follow(self) -> None:
        """Ask now, after each doubt, and again and again until the right is there. Never returns."""
        while True:
            self._doubted.clear()
            await self._ask()
            await asyncio.sleep(self._times.closest_seconds)
            is_there = self._is_certain and self._problem is None
            with suppress(TimeoutError):
                async with asyncio.timeout(None if is_there else self._times.again_seconds):
                    await self._doubted.wait()

    async def _ask(self) -> None:
        uncertain = None
        try:
            async with asyncio.timeout(self._times.answer_seconds):
                problem = None if await self._may_bind_anywhere() else MISSING
        except TimeoutError:
            problem, uncertain = None, f"the API server took longer than {self._times.answer_seconds:g} s to say"
        except (KubeError, CredentialsError, UncertainReviewError) as error:
            problem, uncertain = None, str(error)
        self._report(problem, uncertain)
        self._problem, self._is_certain = problem, uncertain is None

    async def _may_bind_anywhere(self) -> bool:
        if await self._may_bind(""):
            return True
        # A RoleBinding gives the right in one namespace only. If there are too many to ask in time, it is uncertain.
        known = {name for _, name in self._cluster.workloads.keys(Namespace)}
        for namespace in sorted(known | {namespace for namespace, _ in self._cluster.pod_keys()}):
            if await self._may_bind(namespace):
                return True
        return False

    def _report(self, problem: str | None, uncertain: str | None) -> None:
        """Log what differs from the last answer."""
        if uncertain is not None:
            if self._is_certain or self._problem == _NOT_ASKED:
                log.warning("cannot find out whether pods may be bound", extra={"problem": uncertain})
        elif problem is not None:
            if problem != self._problem:
                log.warning("not ready, as no pod can be bound: %s", problem)
        elif not self._is_certain or self._problem is not None:
            log.info("pods may be bound")

"""Whether this service may answer now: it knows the cluster well enough, and no other pair may work."""

from collections.abc import Callable

from extender_service.extender.leadership import Leadership
from extender_service.framework.guard import CycleError

UNKNOWN_CLUSTER = "extender-service does not know the cluster well enough to decide"


class UnavailableError(CycleError):
    """This service may not answer now. It may later, or another one may."""


class Trust:
    """Checks that this service may answer.

    `distrust` returns why the cluster is not known well enough to decide, or None: decisions from an incomplete list or
    an old state overfill nodes. If there are several pairs of kube-scheduler and service, `leadership` follows which
    one works.
    """

    def __init__(self, distrust: Callable[[], str | None] = lambda: None, leadership: Leadership | None = None) -> None:
        self._distrust = distrust
        self._leadership = leadership

    async def wait(self) -> None:
        """Wait until this pair leads, up to `LeaseTimes.patience_seconds`."""
        if self._leadership is not None:
            await self._leadership.wait()

    def require(self) -> None:
        """Raise UnavailableError while the cluster is not known well enough, or another pair works."""
        if self._leadership is not None:
            self.require_lead()
        problem = self._distrust()
        if problem is not None:
            raise UnavailableError(f"{UNKNOWN_CLUSTER}: {problem}")

    def require_lead(self) -> None:
        """Raise UnavailableError while another pair of kube-scheduler and service works, or may do so."""
        problem = None if self._leadership is None else self._leadership.problem()
        if problem is not None:
            raise UnavailableError(f"extender-service places no pods now: {problem}")

"""Whether this service may answer now: it knows the cluster well enough, and no other pair works."""

from collections.abc import Callable

from extender_service.extender.leadership import Leadership
from extender_service.framework.guard import CycleError


class Trust:
    """`distrust` returns why the cluster is not known well enough to decide (half a list, or a state of long ago,
    overfills nodes), or None. `leadership` follows which of several pairs of kube-scheduler and service works, if
    there are several.
    """

    def __init__(self, distrust: Callable[[], str | None] = lambda: None, leadership: Leadership | None = None) -> None:
        self._distrust = distrust
        self._leadership = leadership

    async def wait(self) -> None:
        """Wait until this pair leads, for as long as its caller has patience."""
        if self._leadership is not None:
            await self._leadership.wait()

    def require(self) -> None:
        """Raise CycleError while the cluster is not known well enough, or another pair works."""
        if self._leadership is not None:
            self.require_lead()
        problem = self._distrust()
        if problem is not None:
            raise CycleError(f"extender-service does not know the cluster well enough to decide: {problem}")

    def require_lead(self) -> None:
        """Raise CycleError while another pair of kube-scheduler and service works, or may do so."""
        problem = None if self._leadership is None else self._leadership.problem()
        if problem is not None:
            raise CycleError(f"extender-service places no pods now: {problem}")

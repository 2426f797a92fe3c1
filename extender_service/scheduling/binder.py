"""Runs bindings, from a placement to a pod that the API server has bound.

A binding that has begun runs to its end, whether or not a caller waits for it. From its start, the pod is assumed on
its node, until the watch confirms that or reading the pod disproves it (see confirmations.py).

A binding has these layers, from the outermost:

- `bind` starts a task for it, unless it is called in the binding's own task
- `_bind_in_task` is all that is done in the task: PostBind, too, if the pod is known to be bound
- `_run_cycle` ends what fails in the next one
- `BindingCycle.run_to_bind` runs the plugins from Permit to Bind

Only `undo`, before Bind, and `close` cancel the tasks.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.state.placements import Placement, Reservation
from extender_service.framework.guard import CycleError, RejectedError
from extender_service.framework.handle import Pods
from extender_service.kube.api_errors import KubeError
from extender_service.kube.types.core import pod_name
from extender_service.scheduling.confirmations import CONFIRM_SECONDS, Confirmations
from extender_service.scheduling.under_way import BindError, UnderWay

log = logging.getLogger(__name__)


class Binder:
    """Binds placed pods. Its `confirmations` find out what became of those whose bindings have ended.

    `may_bind` raises CycleError if this process may not bind any more; it is called right before Bind.
    """

    def __init__(
        self,
        cluster: Cluster,
        pods: Pods,
        *,
        may_bind: Callable[[], None] = lambda: None,
        confirm_seconds: float = CONFIRM_SECONDS,
    ) -> None:
        self._placements = cluster.placements
        self._may_bind = may_bind
        self._under_way: dict[str, UnderWay] = {}
        self.confirmations = Confirmations(cluster, pods, self._under_way, confirm_seconds)

    def start(self, uid: str, node_name: str, binding: Coroutine[Any, Any, None]) -> UnderWay:
        """Start a binding: all that the coroutine `binding` does, `bind` included, is under way until it ends."""
        under_way = UnderWay(node_name, asyncio.create_task(binding))
        self._under_way[uid] = under_way
        under_way.task.add_done_callback(lambda task: self._end(uid, task))
        return under_way

    def _end(self, uid: str, task: asyncio.Task[None]) -> None:
        self._under_way.pop(uid, None)
        if not task.cancelled():
            task.exception()  # asyncio would log it where the caller was cancelled

    def __len__(self) -> int:
        return len(self._under_way)

    def binding_of(self, uid: str) -> UnderWay | None:
        """Return the binding of a pod that is under way, None if there is none. The pod need not be assumed yet."""
        return self._under_way.get(uid)

    async def bind(self, placement: Placement) -> None:
        """Run Permit, PreBind, Bind and PostBind for a placed pod; it is assumed on its node from now on.

        Called from a coroutine that `start` runs for the pod, this is a part of that; otherwise it starts by itself.
        Raises BindError, and drops the placement unless the pod may be bound nevertheless. Also raises BindError if
        the placement has ended, or the pod is being bound already.
        """
        under_way = self._under_way.get(placement.uid)
        if under_way is None:
            under_way = self.start(placement.uid, placement.node_name, self._bind_in_task(placement))
            try:
                await asyncio.shield(under_way.task)
            except asyncio.CancelledError as error:
                if not under_way.task.cancelled():
                    raise  # the caller was cancelled: the binding goes on
                # It was undone before it began.
                self.confirmations.drop(placement)
                raise BindError.of(placement, under_way.why_cancelled(error)) from error
        elif under_way.task is asyncio.current_task():
            await self._bind_in_task(placement)
        else:
            raise BindError(f"pod {pod_name(placement.pod)} is being bound to {under_way.node_name}")

    async def _bind_in_task(self, placement: Placement) -> None:
        """Do all of a binding that its task does."""
        reservation = placement.reservation
        assert reservation is not None, "a placement without a reservation cannot be bound"
        if self._placements.get(placement.uid) is placement:
            placement.assume()
            await self._run_cycle(placement, reservation)
        elif not placement.is_confirmed:
            raise BindError.of(placement, "the pod does not count there any more")
        if self._placements.get(placement.uid) is placement:
            reservation.run_post_bind()
            self.confirmations.expect(placement)
        elif placement.is_confirmed:
            reservation.run_post_bind()  # otherwise, the watch has shown the pod's end meanwhile, and Unreserve has run

    async def _run_cycle(self, placement: Placement, reservation: Reservation) -> None:
        """Run the cycle up to Bind, and end what fails. Raises BindError unless the pod is bound to its node anyway."""
        try:
            await reservation.run_to_bind(self._may_bind)
        except KubeError as error:
            await self.confirmations.require_bound(placement, error)
        except CycleError as error:
            # A plugin that refuses in Bind has not bound the pod; one that fails there may have.
            if reservation.has_reached_bind and not isinstance(error, RejectedError):
                await self.confirmations.require_bound(placement, error)
            else:
                self._give_up(placement, BindError(str(error)), error)
        except asyncio.CancelledError as error:
            why = self._under_way[placement.uid].why_cancelled(error)
            self._give_up(placement, BindError.of(placement, why), error)
        except Exception as error:
            # A bug that one pod meets must not keep its place for good.
            log.exception("a binding failed unexpectedly", extra={"pod": pod_name(placement.pod)})
            why = f"{type(error).__name__}: {error}"
            if reservation.has_reached_bind:
                await self.confirmations.require_bound(placement, KubeError(why))
            else:
                self._give_up(placement, BindError.of(placement, why), error)

    def _give_up(self, placement: Placement, failed: BindError, why: BaseException) -> None:
        """Drop a placement and raise `failed`, unless the watch has shown the pod on its node meanwhile."""
        if not placement.is_confirmed:
            self.confirmations.drop(placement)
            raise failed from why

    def undo(self, uid: str, why: str) -> None:
        """Undo a binding that waits in Permit or PreBind, possibly for minutes; Bind itself runs to its end."""
        under_way = self._under_way.get(uid)
        placement = self._placements.get(uid)
        is_reserved = placement is not None and placement.reservation is not None
        if under_way is not None and is_reserved and not self._has_reached_bind(uid):
            under_way.cancel(why)

    def undo_all(self, why: str) -> None:
        """Undo all bindings that wait."""
        for uid in self._under_way:
            self.undo(uid, why)

    async def finish_bindings(self) -> None:
        """Wait until no binding is in Bind; those that wait in Permit or PreBind go on waiting."""
        while sent := [each.task for uid, each in self._under_way.items() if self._has_reached_bind(uid)]:
            await asyncio.wait(sent)

    def _has_reached_bind(self, uid: str) -> bool:
        placement = self._placements.get(uid)
        reservation = None if placement is None else placement.reservation
        return reservation is not None and reservation.has_reached_bind

    async def close(self, grace_seconds: float) -> None:
        """Let bindings under way finish, undo those that take longer, and stop confirming."""
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                while self._under_way:
                    await asyncio.wait([under_way.task for under_way in self._under_way.values()])
        unfinished = [*self._under_way.values()]
        for under_way in unfinished:
            under_way.cancel("extender-service was stopped")
        await asyncio.gather(*(under_way.task for under_way in unfinished), return_exceptions=True)
        self.confirmations.close()

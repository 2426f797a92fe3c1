"""Bindings under way: from a placement to a pod that the API server has bound.

A binding that has begun runs to its end, whether or not a caller waits for it. From its start, the pod is assumed on
its node, until the watch confirms that or reading the pod disproves it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import msgspec

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.state.placements import Placement, Reservation
from extender_service.framework.guard import CycleError
from extender_service.framework.handle import Pods
from extender_service.kube.api_errors import KubeError
from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.pods import TERMINAL_PHASES, pod_uid

log = logging.getLogger(__name__)

# Seconds that the watch may take to show a pod bound before the pod is read, and seconds to retry a failed read after.
CONFIRM_SECONDS = 30.0
RETRY_SECONDS = 5.0


class BindError(Exception):
    """The pod was not bound to that node; the text says why."""


class UnderWay(msgspec.Struct, eq=False, frozen=True):
    """A binding of a pod that has begun, to a node; the task ends when the binding does."""

    node_name: str
    task: asyncio.Task[None]


class Binder:
    """Binds placed pods, and finds out the outcome of bindings that failed without a clear answer.

    `may_bind` raises CycleError if this process may not bind any more; it is called right before Bind. `on_lost`, which
    a scheduler may set, is called for a pod that was bound and is no longer, before the watch could show the binding:
    etcd went back to a backup, or the pod has ended or gone (then the placement is confirmed).
    """

    def __init__(
        self,
        cluster: Cluster,
        pods: Pods,
        *,
        may_bind: Callable[[], None] = lambda: None,
        confirm_seconds: float = CONFIRM_SECONDS,
    ) -> None:
        self._cluster = cluster
        self._pods = pods
        self._may_bind = may_bind
        self._confirm_seconds = confirm_seconds
        self.on_lost: Callable[[Placement], object] = lambda _: None
        self._under_way: dict[str, UnderWay] = {}
        # Pods that are bound, until when the watch should have shown that, in this order: a task for each takes longer
        # to make than most of its binding.
        self._bound: deque[tuple[float, str]] = deque()
        self._next_look: asyncio.TimerHandle | None = None
        self._confirming: dict[Placement, asyncio.Task[None]] = {}

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
                self._drop(placement)
                raise _failed(placement, "undone") from error
        elif under_way.task is asyncio.current_task():
            await self._bind_in_task(placement)
        else:
            raise BindError(f"pod {pod_name(placement.pod)} is being bound to {under_way.node_name}")

    async def _bind_in_task(self, placement: Placement) -> None:
        """Do all of a binding that its task does."""
        reservation = placement.reservation
        assert reservation is not None, "a placement without a reservation cannot be bound"
        if self._cluster.placements.get(placement.uid) is placement:
            placement.assume()
            await self._run_cycle(placement, reservation)
        elif not placement.is_confirmed:
            raise _failed(placement, "the pod does not count there any more")
        is_placed = self._cluster.placements.get(placement.uid) is placement
        if is_placed or placement.is_confirmed:
            # Otherwise, the watch has shown the pod's end meanwhile, and Unreserve has run.
            reservation.run_post_bind()
        if is_placed:
            self._bound.append((asyncio.get_running_loop().time() + self._confirm_seconds, placement.uid))
            if self._next_look is None:
                self._set_timer()

    async def _run_cycle(self, placement: Placement, reservation: Reservation) -> None:
        """Run the cycle up to Bind, and end what fails. Raises BindError unless the pod is bound to its node anyway."""
        try:
            await reservation.run_to_bind(self._may_bind)
        except KubeError as error:
            await self._resolve(placement, error)
        except CycleError as error:
            self._give_up(placement, BindError(str(error)), error)
        except asyncio.CancelledError as error:
            self._give_up(placement, _failed(placement, error), error)
        except Exception as error:
            # A bug that one pod meets must not keep its place for good.
            log.exception("a binding failed unexpectedly", extra={"pod": pod_name(placement.pod)})
            why = f"{type(error).__name__}: {error}"
            if reservation.has_reached_bind:
                await self._resolve(placement, KubeError(why))
            else:
                self._give_up(placement, _failed(placement, why), error)

    def _give_up(self, placement: Placement, failed: BindError, why: BaseException) -> None:
        """Drop a placement and raise `failed`, unless the watch has shown the pod on its node meanwhile."""
        if not placement.is_confirmed:
            self._drop(placement)
            raise failed from why

    def undo(self, uid: str, why: str) -> None:
        """Undo a binding that waits in Permit or PreBind, possibly for minutes; Bind itself runs to its end."""
        under_way = self._under_way.get(uid)
        placement = self._cluster.placements.get(uid)
        is_reserved = placement is not None and placement.reservation is not None
        if under_way is not None and is_reserved and not self._has_reached_bind(uid):
            under_way.task.cancel(why)

    def undo_all(self, why: str) -> None:
        """Undo all bindings that wait."""
        for uid in self._under_way:
            self.undo(uid, why)

    async def finish_bindings(self) -> None:
        """Wait until no binding is in Bind; those that wait in Permit or PreBind go on waiting."""
        while sent := [each.task for uid, each in self._under_way.items() if self._has_reached_bind(uid)]:
            await asyncio.wait(sent)

    def _has_reached_bind(self, uid: str) -> bool:
        placement = self._cluster.placements.get(uid)
        reservation = None if placement is None else placement.reservation
        return reservation is not None and reservation.has_reached_bind

    async def settle(self, uid: str) -> str | None:
        """Find out where a pod is bound whose binding the watch has not confirmed; returns its node, None if none.

        Waits for a binding that is under way, then reads the pod. Raises BindError if the pod cannot be read.
        """
        under_way = self._under_way.get(uid)
        if under_way is not None:
            await asyncio.wait([under_way.task])
        placement = self._cluster.placements.get(uid)
        if placement is None or not placement.assumed:
            return self.shown_on(uid)
        return await self.read_back(placement)

    async def read_back(self, placement: Placement) -> str | None:
        """Read a pod that is assumed on a node; returns the node that it is bound to, None if none.

        The pod still counts on its node if it is bound there, or is not bound and is being bound there again. One that
        was bound there, and has ended or gone, counts no more, and what it reserved is not given back. Only the
        watch changes what is known as fact: the object that is read may be older than what the watch has shown, or
        newer than what it shows next. Raises BindError if the pod cannot be read.
        """
        metadata = placement.pod.metadata
        pod = await self.read(metadata.namespace, metadata.name)
        if self._cluster.placements.get(placement.uid) is not placement:
            return self.shown_on(placement.uid)
        is_there = pod is not None and pod_uid(pod) == placement.uid
        bound_to = pod.spec.node_name if pod is not None and is_there else ""
        has_ended = pod is not None and is_there and pod.status.phase in TERMINAL_PHASES
        was_bound = placement.reservation is not None and placement.reservation.post_bind_has_run
        under_way = self._under_way.get(placement.uid)
        is_tried_again = under_way is not None and under_way.node_name == placement.node_name
        waits = is_there and not has_ended and not bound_to and is_tried_again
        if (has_ended and bound_to == placement.node_name) or (was_bound and not is_there):
            self._cluster.fulfil_placement(placement.uid)
            _run_post_bind(placement)
        elif bound_to != placement.node_name and not waits:
            extra = {"pod": pod_name(placement.pod), "node": placement.node_name}
            log.warning("a pod that was to be bound is not", extra=extra)
            self._drop(placement)
        return bound_to or None

    async def find_out(self, placement: Placement) -> bool:
        """Return whether a pod is bound to its node whose binding has failed; it counts there until that is known.

        Most failures say that it is not, and have dropped the placement: where the pod is there nevertheless, another
        scheduler has bound it. Where neither the answer to the binding nor the pod could be read, the pod is
        read until it can be.
        """
        while self._cluster.placements.get(placement.uid) is placement:
            if (confirming := self._confirming.get(placement)) is not None:
                confirming.cancel()
            await asyncio.sleep(RETRY_SECONDS)
            with suppress(BindError):
                if await self.read_back(placement) == placement.node_name:
                    break
        if self._cluster.placements.get(placement.uid) is placement:
            self._confirm(placement, self._confirm_seconds)
        elif not placement.is_confirmed:
            return False
        elif self.shown_on(placement.uid) is None:
            self.on_lost(placement)  # it has ended, which the watch will not report
        _run_post_bind(placement)
        return True

    def shown_on(self, uid: str) -> str | None:
        """Return the node on which the watch shows the pod, None if on none."""
        known = self._cluster.pod(uid)
        return known.node_name or None if known is not None else None

    async def read(self, namespace: str, name: str) -> Pod | None:
        """Read a pod, None if there is none. Raises BindError if it cannot be read."""
        try:
            return await self._pods.get_pod(namespace, name)
        except KubeError as error:
            raise BindError(f"reading pod {namespace}/{name}: {error}") from error

    async def close(self, grace_seconds: float) -> None:
        """Let bindings under way finish, undo those that take longer, and stop confirming."""
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                while self._under_way:
                    await asyncio.wait([under_way.task for under_way in self._under_way.values()])
        unfinished = [under_way.task for under_way in self._under_way.values()]
        for task in unfinished:
            task.cancel("extender-service was stopped")
        await asyncio.gather(*unfinished, return_exceptions=True)
        self._bound.clear()
        if self._next_look is not None:
            self._next_look.cancel()
        for task in list(self._confirming.values()):
            task.cancel()

    async def _resolve(self, placement: Placement, error: KubeError) -> None:
        """Find out the outcome of a binding that failed: it may have been applied before the answer was lost.

        Returns if the pod is bound to its node. Raises BindError.
        """
        metadata = placement.pod.metadata
        failed = _failed(placement, error)
        try:
            pod = await self.read(metadata.namespace, metadata.name)
        except BindError:
            if placement.is_confirmed:
                return
            # The pod keeps counting on the node until it can be read.
            self._confirm(placement, RETRY_SECONDS)
            raise failed from error
        bound_to = pod.spec.node_name if pod is not None and pod_uid(pod) == placement.uid else ""
        if placement.is_confirmed or bound_to == placement.node_name:
            return
        self._drop(placement)
        if bound_to:
            raise BindError(f"pod {pod_name(placement.pod)} is already bound to {bound_to}") from error
        raise failed from error

    def _drop(self, placement: Placement) -> None:
        if self._cluster.placements.get(placement.uid) is placement:
            self._cluster.drop_placement(placement.uid)

    def _set_timer(self) -> None:
        self._next_look = asyncio.get_running_loop().call_at(self._bound[0][0], self._look)

    def _look(self) -> None:
        """Confirm the bindings that the watch should have shown by now."""
        self._next_look = None
        now = asyncio.get_running_loop().time()
        while self._bound and self._bound[0][0] <= now:
            _, uid = self._bound.popleft()
            placement = self._cluster.placements.get(uid)
            if placement is not None and placement.assumed:
                self._confirm(placement, 0.0)
        if self._bound:
            self._set_timer()

    def _confirm(self, placement: Placement, seconds: float) -> None:
        if self._cluster.placements.get(placement.uid) is placement and placement not in self._confirming:
            task = asyncio.create_task(self._settle_in_time(placement, seconds))
            self._confirming[placement] = task
            task.add_done_callback(lambda _: self._confirming.pop(placement, None))

    async def _settle_in_time(self, placement: Placement, seconds: float) -> None:
        """Read the pod of a binding that the watch does not confirm in time; repeat that while it is unconfirmed.

        Runs PostBind once the pod is known to be bound, which a binding whose answer was lost could not.
        """
        await asyncio.sleep(seconds)
        while self._cluster.placements.get(placement.uid) is placement:
            seconds = self._confirm_seconds
            try:
                bound_to = await self.settle(placement.uid)
                if bound_to == placement.node_name and self._cluster.placements.get(placement.uid) is placement:
                    _run_post_bind(placement)
                elif self.shown_on(placement.uid) is None and self._cluster.placements.get(placement.uid) is None:
                    self.on_lost(placement)
            except BindError as error:
                log.warning("cannot find out whether a pod is bound: %s", error)
                seconds = RETRY_SECONDS
            await asyncio.sleep(seconds)
        if placement.is_confirmed:
            _run_post_bind(placement)


def _run_post_bind(placement: Placement) -> None:
    if placement.reservation is not None:
        placement.reservation.run_post_bind()


def _failed(placement: Placement, why: object) -> BindError:
    return BindError(f"binding {pod_name(placement.pod)} to {placement.node_name}: {why}")

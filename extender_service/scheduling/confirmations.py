"""Confirmations: how bindings ended, by what the watch shows, or by reading the pod where the watch is late.

A pod whose binding has ended counts on its node, as an assumed placement (see cluster/state/placements.py), until it is
known where it is:

    (Bind succeeded)
           │ expect
           ▼
         bound ────────────────────── the watch shows it ───────────────▶ (confirmed)
           │  ▲                                                                ▲
      30 s │  │ it is bound there                                              │
           ▼  │                                                                │
       read again ─── it has ended there, or was bound and has gone ───────────┤ *
        ▲  │  │                                                                │
        │  │  └────── it is bound elsewhere, or nowhere ───▶ (dropped) *       │
    5 s │  │ it cannot be read                                                 │
        │  ▼                                                                   │
        unknown ───────────────────── the watch shows it ──────────────────────┘
           ▲
           │ require_bound
    (neither Bind nor reading the pod said whether it is bound)

    * the pod is lost if the watch shows it nowhere: `on_lost` is called

A pod that has ended or gone while the watch still shows it on no node is read every 30 s, until the watch shows more: a
backup of etcd may bring it back. Then `on_returned` is called.

A pod that is bound nowhere but is being bound to that node again is not dropped: it is read again 30 s later. The 30 s
are `confirm_seconds`. PostBind runs once the pod is known to be bound, Unreserve where its placement is dropped.

A pod that is read again has a task here, which ends once nothing more is to be found out. Only `close` cancels it, and
`until_known`, which reads the pod itself from then on. The tasks of bindings are the Binder's: they are waited for
here, and never cancelled.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.state.placements import Placement
from extender_service.framework.guard import CycleError
from extender_service.framework.handle import Pods
from extender_service.kube.api_errors import KubeError
from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.pods import TERMINAL_PHASES, pod_uid
from extender_service.scheduling.under_way import BindError, UnderWay

log = logging.getLogger(__name__)

# Seconds that the watch may take to show a pod bound before the pod is read, and seconds to retry a failed read after.
CONFIRM_SECONDS = 30.0
RETRY_SECONDS = 5.0


class Confirmations:
    """Finds out whether pods are bound whose bindings have ended, and drops the placements of those that are not.

    `under_way` are the bindings that have not ended, by the UID of their pod. A scheduler may set two callbacks:
    `on_lost` is called for a pod that was bound and is no longer, before the watch could show the binding: etcd went
    back to a backup, or the pod has ended or gone (then the placement is confirmed). `on_returned` is called for one
    that was bound, and is on no node when it is read, as the watch shows it: a backup may have brought it back.
    """

    def __init__(
        self, cluster: Cluster, pods: Pods, under_way: Mapping[str, UnderWay], confirm_seconds: float = CONFIRM_SECONDS
    ) -> None:
        self._cluster = cluster
        self._placements = cluster.placements
        self._pods = pods
        self._under_way = under_way
        self._confirm_seconds = confirm_seconds
        self.on_lost: Callable[[Placement], object] = lambda _: None
        self.on_returned: Callable[[Placement], object] = lambda _: None
        # Since when which pods are bound, in this order: a task for each takes longer to make than most of its binding.
        self._bound: deque[tuple[float, str]] = deque()
        self._next_look: asyncio.TimerHandle | None = None
        self._reading: dict[Placement, asyncio.Task[None]] = {}

    def expect(self, placement: Placement) -> None:
        """Expect the watch to show that a pod is bound; read the pod if it does not in time."""
        self._bound.append((asyncio.get_running_loop().time(), placement.uid))
        if self._next_look is None:
            self._set_timer()

    async def require_bound(self, placement: Placement, error: KubeError | CycleError) -> None:
        """Raise BindError unless a pod is bound whose binding failed: it may have been carried out, its answer lost, or
        a plugin may have failed after that.

        Drops the placement of a pod that is not bound there. One that cannot be read counts until it can.
        """
        metadata = placement.pod.metadata
        failed = BindError.of(placement, error)
        try:
            pod = await self.read_pod(metadata.namespace, metadata.name)
        except BindError:
            if placement.is_confirmed:
                return
            # The pod keeps counting on the node until it can be read.
            self._read_later(placement, RETRY_SECONDS)
            raise failed from error
        bound_to = pod.spec.node_name if pod is not None and pod_uid(pod) == placement.uid else ""
        if placement.is_confirmed or bound_to == placement.node_name:
            return
        self.drop(placement)
        if bound_to:
            raise BindError(f"pod {pod_name(placement.pod)} is already bound to {bound_to}") from error
        raise failed from error

    async def until_known(self, placement: Placement) -> bool:
        """Return whether a pod is bound to its node whose binding has failed; it counts there until that is known.

        Most failures say that it is not, and have dropped the placement: where the pod is there nevertheless, another
        scheduler has bound it. Where neither the answer to the binding nor the pod could be read, the pod is
        read until it can be.
        """
        while self._placements.get(placement.uid) is placement:
            if (reading := self._reading.get(placement)) is not None:
                reading.cancel()
            await asyncio.sleep(RETRY_SECONDS)
            with suppress(BindError):
                if await self.read_back(placement) == placement.node_name:
                    break
        if self._placements.get(placement.uid) is placement:
            self._read_later(placement, self._confirm_seconds)
        elif not placement.is_confirmed:
            return False
        elif self.shown_on(placement.uid) is None:
            self.on_lost(placement)  # it has ended, which the watch will not report
            self._read_later(placement, self._confirm_seconds)
        _run_post_bind(placement)
        return True

    async def read_after_binding(self, uid: str) -> str | None:
        """Return the node that a pod is bound to, None if none, once no binding of it is under way.

        Reads the pod if it is assumed on a node; otherwise the watch says where it is. Raises BindError if the pod
        cannot be read.
        """
        under_way = self._under_way.get(uid)
        if under_way is not None:
            await asyncio.wait([under_way.task])
        placement = self._placements.get(uid)
        if placement is None or not placement.assumed:
            return self.shown_on(uid)
        return await self.read_back(placement)

    async def read_back(self, placement: Placement) -> str | None:
        """Read a pod that is assumed on a node; returns the node that it is bound to, None if none.

        The pod still counts on its node if it is bound there, or is not bound and is being bound there again, or was
        while it was read: then what is read may be older than that binding. One that was bound there, and has ended or
        gone, counts no more, and what it reserved is not given back. Only the watch changes what is known as fact: the
        object that is read may be older than what the watch has shown, or newer than what it shows next. Raises
        BindError if the pod cannot be read.
        """
        metadata, reservation = placement.pod.metadata, placement.reservation
        bind_count = 0 if reservation is None else reservation.bind_count
        pod = await self.read_pod(metadata.namespace, metadata.name)
        if self._placements.get(placement.uid) is not placement:
            return self.shown_on(placement.uid)
        is_there = pod is not None and pod_uid(pod) == placement.uid
        bound_to = pod.spec.node_name if pod is not None and is_there else ""
        has_ended = pod is not None and is_there and pod.status.phase in TERMINAL_PHASES
        was_bound = reservation is not None and reservation.post_bind_has_run
        under_way = self._under_way.get(placement.uid)
        is_tried_again = under_way is not None and under_way.node_name == placement.node_name
        is_older = reservation is not None and reservation.bind_count != bind_count
        if is_there and not has_ended and not bound_to and (is_tried_again or is_older):
            return placement.node_name if is_older and was_bound else None
        if (has_ended and bound_to == placement.node_name) or (was_bound and not is_there):
            self._cluster.fulfil_placement(placement.uid)
            _run_post_bind(placement)
        elif bound_to != placement.node_name:
            extra = {"pod": pod_name(placement.pod), "node": placement.node_name}
            log.warning("a pod that was to be bound is not", extra=extra)
            self.drop(placement)
        return bound_to or None

    def shown_on(self, uid: str) -> str | None:
        """Return the node on which the watch shows the pod, None if on none."""
        known = self._cluster.pod(uid)
        return known.node_name or None if known is not None else None

    async def read_pod(self, namespace: str, name: str) -> Pod | None:
        """Read a pod, None if there is none. Raises BindError if it cannot be read."""
        try:
            return await self._pods.get_pod(namespace, name)
        except KubeError as error:
            raise BindError(f"reading pod {namespace}/{name}: {error}") from error

    def drop(self, placement: Placement) -> None:
        """Drop the placement of a pod that is not bound there, unless it has ended already."""
        if self._placements.get(placement.uid) is placement:
            self._cluster.drop_placement(placement.uid)

    def close(self) -> None:
        """Expect nothing any more, and read no pod again."""
        self._bound.clear()
        if self._next_look is not None:
            self._next_look.cancel()
        for task in list(self._reading.values()):
            task.cancel()

    def _set_timer(self) -> None:
        self._next_look = asyncio.get_running_loop().call_at(self._bound[0][0] + self._confirm_seconds, self._look)

    def _look(self) -> None:
        """Read the pods whose bindings the watch should have shown by now."""
        self._next_look = None
        now = asyncio.get_running_loop().time()
        while self._bound and self._bound[0][0] + self._confirm_seconds <= now:
            _, uid = self._bound.popleft()
            placement = self._placements.get(uid)
            if placement is not None and placement.assumed:
                self._read_later(placement, 0.0)
        if self._bound:
            self._set_timer()

    def _read_later(self, placement: Placement, seconds: float) -> None:
        if placement not in self._reading:
            task = asyncio.create_task(self._read_until_confirmed(placement, seconds))
            self._reading[placement] = task
            task.add_done_callback(lambda _: self._reading.pop(placement, None))

    async def _read_until_confirmed(self, placement: Placement, seconds: float) -> None:
        """Read a pod after some seconds, and again and again until its placement ends.

        Runs PostBind once the pod is known to be bound, which a binding whose answer was lost could not.
        """
        await asyncio.sleep(seconds)
        while self._placements.get(placement.uid) is placement:
            seconds = self._confirm_seconds
            try:
                bound_to = await self.read_after_binding(placement.uid)
                if bound_to == placement.node_name and self._placements.get(placement.uid) is placement:
                    _run_post_bind(placement)
                elif self.shown_on(placement.uid) is None and self._placements.get(placement.uid) is None:
                    self.on_lost(placement)
            except BindError as error:
                log.warning("cannot find out whether a pod is bound: %s", error)
                seconds = RETRY_SECONDS
            await asyncio.sleep(seconds)
        if placement.is_confirmed:
            _run_post_bind(placement)
            await self._read_while_pending(placement)

    async def _read_while_pending(self, placement: Placement) -> None:
        """Read a pod that was bound while the watch shows it on no node, until it is there and on no node."""
        metadata = placement.pod.metadata
        while self._cluster.pending_slot(placement.uid) is not None:
            pod = None
            with suppress(BindError):  # it is read again
                pod = await self.read_pod(metadata.namespace, metadata.name)
            is_there = pod is not None and pod_uid(pod) == placement.uid
            if pod is not None and is_there and not pod.spec.node_name and pod.status.phase not in TERMINAL_PHASES:
                self.on_returned(placement)
                return
            await asyncio.sleep(self._confirm_seconds)


def _run_post_bind(placement: Placement) -> None:
    if placement.reservation is not None:
        placement.reservation.run_post_bind()

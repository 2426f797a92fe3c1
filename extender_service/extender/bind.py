"""The bind verb: binds a pod to the node that was chosen for it."""

import asyncio
import logging
from contextlib import suppress

import msgspec

from extender_service.cluster.cluster import TERMINAL_PHASES, pod_uid
from extender_service.cluster.placements import Placement
from extender_service.extender.calls import HungUp
from extender_service.extender.service import ExtenderService, pod_name
from extender_service.extender.unheard import Record, discard, failed_scheduling, scheduled
from extender_service.extender.wire import ExtenderBindingArgs
from extender_service.framework.binding import BindingCycle
from extender_service.framework.interface import CycleState, Pods
from extender_service.framework.runtime import CycleError, run_filter, run_pre_filter
from extender_service.kube.api_errors import KubeError
from extender_service.kube.objects import Pod

log = logging.getLogger(__name__)

# How long the watch may take to show a pod bound before the pod is read, and how soon that is tried again on failure.
CONFIRM_SECONDS = 30.0
RETRY_SECONDS = 5.0


class BindError(Exception):
    """The pod was not bound to that node; says why."""


class _Binding(msgspec.Struct, eq=False):
    node_name: str
    task: asyncio.Task[None]
    callers: list[HungUp]


class Binder:
    """Binds pods. A binding that has begun runs to its end, whether or not the caller waits for it.

    The pod is assumed on its node from then on, until the watch confirms it, or reading the pod shows otherwise.
    What came of a binding that no caller has waited for goes to `record`.
    """

    def __init__(
        self,
        service: ExtenderService,
        pods: Pods,
        *,
        confirm_seconds: float = CONFIRM_SECONDS,
        record: Record = discard,
    ) -> None:
        self._service = service
        self._cluster = service.cluster
        self._pods = pods
        self._confirm_seconds = confirm_seconds
        self._record = record
        self._under_way: dict[str, _Binding] = {}
        self._settling: dict[str, asyncio.Task[None]] = {}

    async def bind(self, args: ExtenderBindingArgs, hung_up: HungUp) -> None:
        """Bind a pod, or join the binding of it that is under way. Raises BindError, or CycleError."""
        self._service.require_lead()
        uid = args.pod_uid
        binding = self._under_way.get(uid)
        if binding is not None and binding.node_name != args.node:
            raise BindError(f"pod {_name(args)} is being bound to {binding.node_name}")
        if binding is None:
            callers: list[HungUp] = []
            binding = _Binding(args.node, asyncio.create_task(self._bind_and_tell(uid, args, callers)), callers)
            self._under_way[uid] = binding
            binding.task.add_done_callback(lambda _: self._under_way.pop(uid, None))
        binding.callers.append(hung_up)
        try:
            await asyncio.shield(binding.task)
        finally:
            binding.callers.remove(hung_up)  # a call can also be cancelled

    def is_under_way(self, uid: str) -> bool:
        """Whether a pod is being bound, assumed or not."""
        return uid in self._under_way

    def undo(self, uid: str, why: str = "the pod was asked about on other nodes") -> None:
        """Undo a binding that waits in Permit or PreBind, which may be for minutes; Bind itself runs to its end."""
        binding = self._under_way.get(uid)
        placement = self._cluster.placements.get(uid)
        cycle = None if placement is None else placement.plan
        if binding is not None and isinstance(cycle, BindingCycle) and not cycle.has_come_to_bind:
            binding.task.cancel(why)

    def give_up(self, why: str) -> None:
        """Undo all bindings that wait, and what is expected of other pods."""
        for uid in self._under_way:
            self.undo(uid, why)
        self._cluster.drop_expectations()

    async def settle(self, uid: str) -> str | None:
        """Read a pod whose binding the watch has not confirmed, and go by what that says; returns its node, if any.

        Raises BindError if that cannot be told.
        """
        binding = self._under_way.get(uid)
        if binding is not None:
            await asyncio.wait([binding.task])
        placement = self._cluster.placements.get(uid)
        if placement is None or not placement.assumed:
            return self._shown_on(uid)
        return await self._settle(placement)

    async def close(self, grace_seconds: float) -> None:
        """Let bindings under way finish, and undo those that take longer and what is expected; then forget the rest."""
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                while self._under_way:
                    await asyncio.wait([binding.task for binding in self._under_way.values()])
        unfinished = [binding.task for binding in self._under_way.values()]
        for task in unfinished:
            task.cancel("extender-service was stopped")
        await asyncio.gather(*unfinished, return_exceptions=True)
        self._cluster.drop_expectations()
        for task in list(self._settling.values()):
            task.cancel()

    async def _bind_and_tell(self, uid: str, args: ExtenderBindingArgs, callers: list[HungUp]) -> None:
        try:
            has_bound = await self._bind(uid, args)
        except (BindError, asyncio.CancelledError) as error:
            failed = error if isinstance(error, BindError) else BindError(f"{_doing(args)}: {error}")
            if _are_gone(callers):
                self._record(failed_scheduling(args, str(failed)))
            raise failed from error
        if has_bound and _are_gone(callers):
            self._record(scheduled(args))

    async def _bind(self, uid: str, args: ExtenderBindingArgs) -> bool:
        """Bind the pod; returns False if it was bound to that node already."""
        pod = await self._unbound(uid, args)
        if pod is None:
            return False
        await self._run(uid, args, self._assume(uid, args, pod))
        self._confirm(uid, self._confirm_seconds)
        return True

    async def _unbound(self, uid: str, args: ExtenderBindingArgs) -> Pod | None:
        """Return the pod that is to be bound, None if it is bound to that node already."""
        placement = self._cluster.placements.get(uid)
        bound_to = self._shown_on(uid)
        if placement is not None and placement.assumed:
            # Bound before, as far as anybody knows. If it is not, its room must not be given away before it is.
            bound_to = await self._settle(placement)
            placement = self._cluster.placements.get(uid)
        if bound_to is None:
            pod = placement.pod if placement is not None else await self._wanted(args)
            # While it was read, the watch may have shown more.
            bound_to = pod.spec.node_name or self._shown_on(uid)
            if not bound_to:
                return pod
        _check_node(args, bound_to)
        return None

    def _shown_on(self, uid: str) -> str | None:
        """The node on which the watch shows the pod."""
        known = self._cluster.pod(uid)
        return known.node_name or None if known is not None else None

    def _assume(self, uid: str, args: ExtenderBindingArgs, pod: Pod) -> BindingCycle:
        """Count the pod on its node, and return what is left to do: Reserve has run when the node was chosen here."""
        placements = self._cluster.placements
        expected = placements.get(uid)
        if expected is not None and expected.node_name == args.node and isinstance(expected.plan, BindingCycle):
            placements.assume(pod, uid, args.node)
            return expected.plan
        self._cluster.drop_placement(uid)  # what is set aside on another node is free again, for this pod, too
        cycle = BindingCycle(self._service.profile_for(pod), self._judged(pod, args.node), pod, args.node)
        try:
            cycle.reserve()
        except CycleError as error:
            raise BindError(str(error)) from error
        placements.assume(pod, uid, args.node, cycle.unreserve, cycle)
        return cycle

    def _judged(self, pod: Pod, node_name: str) -> CycleState:
        """Let the plugins look at the node again that was chosen elsewhere: those that reserve go by what they saw."""
        profile = self._service.profile_for(pod)
        state = CycleState(pod)
        if profile.reserve or profile.permit or profile.pre_bind:
            view = self._cluster.view(self._cluster.nodes.rows_named([node_name]))
            try:
                run_filter(profile, state, pod, view, view.exists, run_pre_filter(profile, state, pod))
            except CycleError as error:
                raise BindError(str(error)) from error
        return state

    async def _run(self, uid: str, args: ExtenderBindingArgs, cycle: BindingCycle) -> None:
        try:
            await cycle.run(may_bind=self._service.require_lead)
        except KubeError as error:
            await self._resolve(uid, args, error)
        except CycleError as error:
            self._cluster.drop_placement(uid)
            raise BindError(str(error)) from error
        except asyncio.CancelledError:
            self._cluster.drop_placement(uid)
            raise
        cycle.finish()

    async def _resolve(self, uid: str, args: ExtenderBindingArgs, error: KubeError) -> None:
        """Find out what became of a binding that failed: it may have been applied before the answer was lost."""
        failed = BindError(f"{_doing(args)}: {error}")
        try:
            pod = await self._read(args.pod_namespace, args.pod_name)
        except BindError:
            # Nobody can tell now: the pod keeps counting on the node until somebody can.
            self._confirm(uid, RETRY_SECONDS)
            raise failed from error
        bound_to = pod.spec.node_name if pod is not None and pod_uid(pod) == uid else ""
        if bound_to == args.node:
            return
        self._cluster.drop_placement(uid)
        if bound_to:
            _check_node(args, bound_to)
        raise failed from error

    async def _wanted(self, args: ExtenderBindingArgs) -> Pod:
        pod = await self._read(args.pod_namespace, args.pod_name)
        if pod is None:
            raise BindError(f"pod {_name(args)} does not exist")
        if pod_uid(pod) != args.pod_uid:
            raise BindError(f"pod {_name(args)} is another one now: its UID is {pod_uid(pod)}, not {args.pod_uid}")
        return pod

    async def _read(self, namespace: str, name: str) -> Pod | None:
        try:
            return await self._pods.get_pod(namespace, name)
        except KubeError as error:
            raise BindError(f"reading pod {namespace}/{name}: {error}") from error

    async def _settle(self, placement: Placement) -> str | None:
        """Read a pod that is assumed on a node; returns the node that it is bound to, if any.

        If that is the same node, or none and it is being bound there again, it goes on to count there. Only the watch
        makes facts: what is read may be older than what it has shown, or newer than what it shows next.
        """
        metadata = placement.pod.metadata
        pod = await self._read(metadata.namespace, metadata.name)
        if self._cluster.placements.get(placement.uid) is not placement:
            return self._shown_on(placement.uid)
        is_there = pod is not None and pod_uid(pod) == placement.uid and pod.status.phase not in TERMINAL_PHASES
        bound_to = pod.spec.node_name if pod is not None and is_there else ""
        binding = self._under_way.get(placement.uid)
        is_tried_again = binding is not None and binding.node_name == placement.node_name
        waits = is_there and not bound_to and is_tried_again
        if bound_to != placement.node_name and not waits:
            extra = {"pod": pod_name(placement.pod), "node": placement.node_name}
            log.warning("a pod that was to be bound is not", extra=extra)
            self._cluster.drop_placement(placement.uid)
        return bound_to or None

    def _confirm(self, uid: str, seconds: float) -> None:
        if self._cluster.placements.get(uid) is not None and uid not in self._settling:
            task = asyncio.create_task(self._settle_in_time(uid, seconds))
            self._settling[uid] = task
            task.add_done_callback(lambda _: self._settling.pop(uid, None))

    async def _settle_in_time(self, uid: str, seconds: float) -> None:
        """Settle a binding that the watch does not confirm in time, as often as it takes."""
        while True:
            await asyncio.sleep(seconds)
            placement = self._cluster.placements.get(uid)
            if placement is None or not placement.assumed:
                return
            seconds = self._confirm_seconds
            try:
                await self.settle(uid)
            except BindError as error:
                log.warning("cannot tell whether a pod is bound: %s", error)
                seconds = RETRY_SECONDS


def _are_gone(callers: list[HungUp]) -> bool:
    return all(hung_up() for hung_up in callers)


def _check_node(args: ExtenderBindingArgs, bound_to: str) -> None:
    if bound_to != args.node:
        raise BindError(f"pod {_name(args)} is already bound to {bound_to}")


def _doing(args: ExtenderBindingArgs) -> str:
    return f"binding {_name(args)} to {args.node}"


def _name(args: ExtenderBindingArgs) -> str:
    return f"{args.pod_namespace}/{args.pod_name}"

"""The bind verb: binds a pod to the node that was chosen for it."""

import asyncio

from extender_service.extender.binding_events import Record, bound_pod
from extender_service.extender.trust import Trust
from extender_service.framework.guard import CycleError
from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.extender_api import ExtenderBindingArgs
from extender_service.kube.types.pods import pod_uid
from extender_service.scheduling import pod_events
from extender_service.scheduling.decision import Decision
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.explanation import grounds, refusals
from extender_service.scheduling.question import Question
from extender_service.scheduling.under_way import BindError
from extender_service.serving.scope import HungUp


class BindVerb:
    """Binds pods by name. Callers that ask for a binding under way join it.

    If all callers hang up before the binding ends, an event about its outcome goes to `record`. With `requires_fit`, a
    pod without a place on the node must fit there: set it if the service alone decides. It may have been started since,
    or have dropped the place, which kube-scheduler does not know, and another pod may have got that room.
    """

    def __init__(self, engine: Engine, trust: Trust, record: Record, *, requires_fit: bool = False) -> None:
        self._engine = engine
        self._cluster = engine.cluster
        self._binder = engine.binder
        self._confirmations = engine.binder.confirmations
        self._trust = trust
        self._record = record
        self._requires_fit = requires_fit
        self._callers: dict[str, list[HungUp]] = {}

    async def __call__(self, args: ExtenderBindingArgs, hung_up: HungUp) -> None:
        """Bind a pod, or join its binding that is under way. Raises BindError, or CycleError."""
        self._trust.require_lead()
        uid = args.pod_uid
        under_way = self._binder.binding_of(uid)
        if under_way is not None and under_way.node_name != args.node:
            raise BindError(f"pod {_name(args)} is being bound to {under_way.node_name}")
        if under_way is None:
            self._callers[uid] = []
            under_way = self._binder.start(uid, args.node, self._bind_and_report(args, self._callers[uid]))
            under_way.task.add_done_callback(lambda _: self._callers.pop(uid, None))
        callers = self._callers[uid]
        callers.append(hung_up)
        try:
            await asyncio.shield(under_way.task)
        except asyncio.CancelledError as error:
            if not under_way.task.cancelled():
                raise  # the call was cancelled: the binding goes on
            # It was undone before its first step, in which it would have reported that itself.
            raise _undone(args, under_way.why_cancelled(error)) from error
        finally:
            callers.remove(hung_up)  # a call can also be cancelled

    async def _bind_and_report(self, args: ExtenderBindingArgs, callers: list[HungUp]) -> None:
        under_way = self._binder.binding_of(args.pod_uid)
        assert under_way is not None, "this is what its task does"
        try:
            has_bound = await self._bind(args)
        except (BindError, asyncio.CancelledError) as error:
            failed = error if isinstance(error, BindError) else _undone(args, under_way.why_cancelled(error))
            if _are_gone(callers):
                self._record(pod_events.failed_scheduling(bound_pod(args), str(failed)))
            raise failed from error
        if has_bound and _are_gone(callers):
            self._record(pod_events.scheduled(bound_pod(args), args.node))

    async def _bind(self, args: ExtenderBindingArgs) -> bool:
        """Bind the pod; returns False if it was bound to that node already."""
        pod = await self._unbound(args)
        if pod is None:
            return False
        placement = self._cluster.placements.get(args.pod_uid)
        if placement is None or placement.node_name != args.node or placement.reservation is None:
            try:
                placement = self._engine.place(pod, args.node, self._judged(pod, args.node))
            except CycleError as error:
                raise BindError(str(error)) from error
        await self._engine.bind(placement)
        return True

    async def _unbound(self, args: ExtenderBindingArgs) -> Pod | None:
        """Return the pod to bind, None if it is bound to that node already."""
        uid = args.pod_uid
        placement = self._cluster.placements.get(uid)
        bound_to = self._confirmations.shown_on(uid)
        if placement is not None and placement.assumed:
            # As far as is known here, the pod is bound already. If not, other pods must not get its room meanwhile.
            bound_to = await self._confirmations.read_back(placement)
            placement = self._cluster.placements.get(uid)
        elif bound_to == args.node and not (await self._wanted(args)).spec.node_name:
            # The caller knows more than the watch has shown here. It tries again.
            raise BindError(f"pod {_name(args)} is no longer bound to {bound_to}: etcd was restored")
        if bound_to is None:
            pod = placement.pod if placement is not None else await self._wanted(args)
            # The watch may have shown more while the pod was read.
            bound_to = pod.spec.node_name or self._confirmations.shown_on(uid)
            if not bound_to:
                return pod
        if bound_to != args.node:
            raise BindError(f"pod {_name(args)} is already bound to {bound_to}")
        return None

    def _judged(self, pod: Pod, node_name: str) -> Decision | None:
        """Run the plugins for the node that was chosen elsewhere, if some need the state of a decision to bind.

        The pod's placement on another node ends first, which frees what it reserved there, also for this pod. Raises
        BindError if the pod must fit and does not, CycleError or QuantityError if no decision is possible.
        """
        self._cluster.drop_placement(pod_uid(pod))
        nodes = self._engine.nodes.named_once([node_name])
        # A node that the watch does not show has no place that another pod could have got.
        if self._requires_fit and not nodes.unknown:
            decision = self._engine.decide_without_reuse(Question(pod, nodes, must_score=False))
            if not len(decision.feasible):
                why = ", ".join(refusals(grounds(decision)).reasons)
                raise BindError(
                    f"pod {pod_name(pod)} has no place on {node_name} any more, and does not fit there: {why}"
                )
        if not self._engine.profiles.of(pod).needs_state_to_bind:
            return None
        return self._engine.decide(Question(pod, nodes, chosen_elsewhere=True))

    async def _wanted(self, args: ExtenderBindingArgs) -> Pod:
        """Read the pod, as the caller sends only its name and UID. Raises BindError."""
        pod = await self._confirmations.read_pod(args.pod_namespace, args.pod_name)
        if pod is None:
            raise BindError(f"pod {_name(args)} does not exist")
        if pod_uid(pod) != args.pod_uid:
            raise BindError(f"pod {_name(args)} is another one now: its UID is {pod_uid(pod)}, not {args.pod_uid}")
        return pod


def _are_gone(callers: list[HungUp]) -> bool:
    return all(hung_up() for hung_up in callers)


def _undone(args: ExtenderBindingArgs, why: str) -> BindError:
    return BindError(f"binding {_name(args)} to {args.node}: {why}")


def _name(args: ExtenderBindingArgs) -> str:
    return f"{args.pod_namespace}/{args.pod_name}"

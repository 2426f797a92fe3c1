"""The bind verb: binds a pod to the node that was chosen for it."""

import asyncio
import logging
from typing import Protocol

import msgspec

from extender_service.cluster.cluster import Cluster, pod_uid
from extender_service.extender.service import pod_name
from extender_service.extender.wire import ExtenderBindingArgs
from extender_service.kube.api_errors import KubeError
from extender_service.kube.objects import Pod

log = logging.getLogger(__name__)

# How long the watch may take to show a pod bound before the pod is read, and how soon that is tried again on failure.
CONFIRM_SECONDS = 30.0
RETRY_SECONDS = 5.0


class BindError(Exception):
    """The pod was not bound to that node; says why."""


class Pods(Protocol):
    """Where pods are read and bound: an API server, or a cluster file."""

    async def get_pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod, None if there is none. Raises KubeError if that cannot be told."""

    async def bind_pod(self, namespace: str, name: str, uid: str, node_name: str) -> None:
        """Bind a pod, with its UID as precondition. Raises KubeError; the pod may be bound all the same."""


class _Binding(msgspec.Struct, eq=False):
    node_name: str
    task: asyncio.Task[None]


class Binder:
    """Binds pods. A binding that has begun runs to its end, whether or not the caller waits for it.

    The pod is assumed on its node from then on, until the watch confirms it, or reading the pod shows otherwise.
    """

    def __init__(self, cluster: Cluster, pods: Pods, *, confirm_seconds: float = CONFIRM_SECONDS) -> None:
        self._cluster = cluster
        self._pods = pods
        self._confirm_seconds = confirm_seconds
        self._under_way: dict[str, _Binding] = {}
        self._settling: dict[str, asyncio.Task[None]] = {}

    async def bind(self, args: ExtenderBindingArgs) -> None:
        """Bind a pod, or join the binding of it that is under way. Raises BindError."""
        uid = args.pod_uid
        binding = self._under_way.get(uid)
        if binding is not None and binding.node_name != args.node:
            raise BindError(f"pod {_name(args)} is being bound to {binding.node_name}")
        if binding is None:
            binding = _Binding(args.node, asyncio.create_task(self._bind(uid, args)))
            self._under_way[uid] = binding
            binding.task.add_done_callback(lambda _: self._under_way.pop(uid, None))
        await asyncio.shield(binding.task)

    async def settle(self, uid: str) -> str | None:
        """Read a pod whose binding the watch has not confirmed, and go by what that says; returns its node, if any.

        Raises BindError if that cannot be told.
        """
        binding = self._under_way.get(uid)
        if binding is not None:
            await asyncio.wait([binding.task])
        placement = self._cluster.placements.get(uid)
        if placement is None:
            known = self._cluster.pod(uid)
            return known.node_name or None if known is not None else None
        metadata = placement.pod.metadata
        pod = await self._read(metadata.namespace, metadata.name)
        if pod is not None and pod_uid(pod) == uid and pod.spec.node_name:
            self._cluster.apply_pod(pod)
            return pod.spec.node_name
        extra = {"pod": pod_name(placement.pod), "node": placement.node_name}
        log.warning("a pod that was to be bound is not", extra=extra)
        self._cluster.drop_placement(uid)
        return None

    async def close(self) -> None:
        """Let bindings under way finish, and stop waiting for the watch."""
        tasks = [binding.task for binding in self._under_way.values()]
        if tasks:
            await asyncio.wait(tasks)
        for task in list(self._settling.values()):
            task.cancel()

    async def _bind(self, uid: str, args: ExtenderBindingArgs) -> None:
        known = self._cluster.pod(uid)
        if known is not None and known.node_name:
            _check_node(args, known.node_name)
            return
        placement = self._cluster.placements.get(uid)
        pod = placement.pod if placement is not None else await self._wanted(args)
        if pod.spec.node_name:
            _check_node(args, pod.spec.node_name)
            return
        self._cluster.placements.assume(pod, uid, args.node)
        try:
            await self._pods.bind_pod(args.pod_namespace, args.pod_name, args.pod_uid, args.node)
        except KubeError as error:
            await self._resolve(uid, args, error)
        self._confirm(uid, self._confirm_seconds)

    async def _resolve(self, uid: str, args: ExtenderBindingArgs, error: KubeError) -> None:
        """Find out what became of a binding that failed: it may have been applied before the answer was lost."""
        failed = BindError(f"binding {_name(args)} to {args.node}: {error}")
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

    def _confirm(self, uid: str, seconds: float) -> None:
        if self._cluster.placements.get(uid) is not None and uid not in self._settling:
            task = asyncio.create_task(self._settle_in_time(uid, seconds))
            self._settling[uid] = task
            task.add_done_callback(lambda _: self._settling.pop(uid, None))

    async def _settle_in_time(self, uid: str, seconds: float) -> None:
        """Settle a binding that the watch does not confirm in time."""
        while True:
            await asyncio.sleep(seconds)
            placement = self._cluster.placements.get(uid)
            if placement is None or not placement.assumed:
                return
            try:
                await self.settle(uid)
            except BindError as error:
                log.warning("cannot tell whether a pod is bound: %s", error)
                seconds = RETRY_SECONDS
            else:
                return


def _check_node(args: ExtenderBindingArgs, bound_to: str) -> None:
    if bound_to != args.node:
        raise BindError(f"pod {_name(args)} is already bound to {bound_to}")


def _name(args: ExtenderBindingArgs) -> str:
    return f"{args.pod_namespace}/{args.pod_name}"

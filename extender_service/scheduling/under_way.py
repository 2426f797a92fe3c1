"""A binding that has begun, and the error with which one fails."""

import asyncio
from typing import Self

import msgspec

from extender_service.cluster.state.placements import Placement
from extender_service.kube.types.core import pod_name


class BindError(Exception):
    """The pod was not bound to that node, or it cannot be known whether it was; the text says why."""

    @classmethod
    def of(cls, placement: Placement, why: object) -> Self:
        """Return an error whose text names the pod and the node."""
        return cls(f"binding {pod_name(placement.pod)} to {placement.node_name}: {why}")


class UnderWay(msgspec.Struct, eq=False):
    """A binding of a pod that has begun, to a node; the task ends when the binding does.

    `why_undone` is empty unless the binding was cancelled. The CancelledError does not say it reliably: a plugin may
    catch that and finish, and asyncio.shield raises another one.
    """

    node_name: str
    task: asyncio.Task[None]
    why_undone: str = ""

    def cancel(self, why: str) -> None:
        """Cancel the task. If it was cancelled before, and is still cleaning up, the first reason stays."""
        self.why_undone = self.why_undone or why
        self.task.cancel()

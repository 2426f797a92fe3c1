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

    - `why_undone`: the first reason that `cancel` was given; empty if it was not called
    """

    node_name: str
    task: asyncio.Task[None]
    why_undone: str = ""

    def cancel(self, why: str) -> None:
        """Cancel the task. If it was cancelled before, and is still cleaning up, the first reason stays."""
        self.why_undone = self.why_undone or why
        self.task.cancel()

    def why_cancelled(self, error: asyncio.CancelledError) -> str:
        """Return why the task was cancelled; never empty.

        The error says it only where something else cancelled the task, such as the end of a simulation. A plugin may
        catch an error and finish, and asyncio.shield raises another one.
        """
        return self.why_undone or str(error) or "it was cancelled"

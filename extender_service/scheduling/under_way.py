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


class UnderWay(msgspec.Struct, eq=False, frozen=True):
    """A binding of a pod that has begun, to a node; the task ends when the binding does."""

    node_name: str
    task: asyncio.Task[None]

    def why_undone(self) -> str:
        """Return why it was undone before its first step: asyncio.shield tells its caller that it was, and not why.

        Raises ValueError if it was not.
        """
        try:
            self.task.exception()
        except asyncio.CancelledError as error:
            return str(error)
        raise ValueError(f"the binding to {self.node_name} was not undone")

"""What a measurement asks of an API server: real_server.py and stub_server.py are the two kinds."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import msgspec

from tests.e2e.support.api import API
from tests.e2e.support.objects import Object


class Counts(msgspec.Struct, frozen=True):
    """What has been bound and written so far. Times are in seconds of one clock, 0 if there was none yet."""

    first_write: float = 0.0  # of the scheduler: a status, a deletion, a binding or an event
    bound: int = 0
    last_binding: float = 0.0
    events: int = 0  # about bindings
    last_event: float = 0.0
    other_events: int = 0


class BoundPod(msgspec.Struct, frozen=True):
    """When a pod was created and bound, by the clock of `Counts`. `created_at` may be 0 if it was there at first."""

    created_at: float
    bound_at: float


class ApiServer(Protocol):
    """An API server with a cluster whose pods have not been bound yet."""

    kubeconfig: Path
    api: API

    @property
    def processes(self) -> Mapping[str, int]:
        """The process ids of all that runs beside the scheduler, by name."""

    def create(self, *objects: Object) -> None:
        """Create objects while a scheduler runs."""

    def delete(self, *objects: Object) -> None:
        """Delete objects while a scheduler runs."""

    def counts(self) -> Counts:
        """Return what has happened so far."""

    def bound_pods(self) -> Sequence[BoundPod]:
        """Return the pods that the scheduler has bound so far."""


Site = Callable[[], AbstractContextManager[ApiServer]]
"""Gives an API server on which all pods of a scene are to be bound, for each measurement one."""

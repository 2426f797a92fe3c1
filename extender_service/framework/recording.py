"""How long extension points and plugins take, for whoever wants to know; nobody asking costs nothing."""

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from extender_service.framework.status import Code
from extender_service.seams import Clock

P = ParamSpec("P")
T = TypeVar("T")


class Recorder(Protocol):
    """Is told durations; `point` is named as in kube-scheduler's metrics, such as PreFilter, `status` as a code."""

    def record_point(self, profile: str, point: str, status: str, seconds: float) -> None:
        """Note a run of all plugins of an extension point."""

    def record_plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Note a call of one plugin."""


class Recorded(Protocol):
    """What a recorder may be attached to."""

    @property
    def scheduler_name(self) -> str:
        """The profile's name."""

    @property
    def recorder(self) -> Recorder | None:
        """Who wants to know."""

    @property
    def clock(self) -> Clock:
        """What durations are measured with."""


R = TypeVar("R", bound=Recorded)


def extension_point(
    point: str, status_of: Callable[[Any], Code] = lambda _: Code.SUCCESS
) -> Callable[[Callable[Concatenate[R, P], T]], Callable[Concatenate[R, P], T]]:
    """Time a function that runs an extension point; one that raises counts as an error."""

    def decorate(run: Callable[Concatenate[R, P], T]) -> Callable[Concatenate[R, P], T]:
        @functools.wraps(run)
        def timed(profile: R, /, *args: P.args, **kwargs: P.kwargs) -> T:
            recorder = profile.recorder
            if recorder is None:
                return run(profile, *args, **kwargs)
            started = profile.clock()
            code = Code.ERROR
            try:
                outcome = run(profile, *args, **kwargs)
                code = status_of(outcome)
                return outcome
            finally:
                recorder.record_point(profile.scheduler_name, point, code.label, profile.clock() - started)

        return timed

    return decorate

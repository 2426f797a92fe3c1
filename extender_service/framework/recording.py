"""Records how long extension points and plugins take. Without a recorder, this costs next to nothing."""

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from extender_service.framework.status import Code, Status
from extender_service.seams import Clock

P = ParamSpec("P")
T = TypeVar("T")


class Recorder(Protocol):
    """Receives durations. `point` is the name in kube-scheduler's metrics, such as PreFilter; `status` is a code's."""

    def record_point(self, profile: str, point: str, status: str, seconds: float) -> None:
        """Note a run of all plugins of an extension point."""

    def record_plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Note a call of one plugin."""

    def record_permit_wait(self, status: str, seconds: float) -> None:
        """Note how long a pod waited in Permit, and how that ended."""


class Recorded(Protocol):
    """An object whose extension points a recorder can time."""

    @property
    def scheduler_name(self) -> str:
        """The profile's name."""

    @property
    def recorder(self) -> Recorder | None:
        """The recorder, None if durations are not recorded."""

    @property
    def clock(self) -> Clock:
        """The clock that measures durations."""


R = TypeVar("R", bound=Recorded)


def extension_point(
    point: str, status_of: Callable[[Any], Code] = lambda _: Code.SUCCESS
) -> Callable[[Callable[Concatenate[R, P], T]], Callable[Concatenate[R, P], T]]:
    """Decorate a function that runs an extension point, to record its duration, also if it raises."""

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
            except Exception as error:
                code = code_of(error)
                raise
            else:
                return outcome
            finally:
                recorder.record_point(profile.scheduler_name, point, code.label, profile.clock() - started)

        return timed

    return decorate


def code_of(error: BaseException) -> Code:
    """Return the code under which an exception of an extension point or plugin is recorded: that of its `status`."""
    status = getattr(error, "status", None)
    return status.code if isinstance(status, Status) else Code.ERROR

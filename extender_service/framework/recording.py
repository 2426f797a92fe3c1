"""How long extension points and plugins take, for whoever wants to know; nobody asking costs nothing."""

import functools
import random
import time
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from extender_service.framework.status import Code

P = ParamSpec("P")
T = TypeVar("T")

# The share of decisions whose plugins are timed, as in kube-scheduler (pluginMetricsSamplePercent).
SAMPLED = 0.1


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


R = TypeVar("R", bound=Recorded)


def sample(profile: Recorded) -> Recorder | None:
    """Draw whether the plugins of a decision are to be timed, and return who wants to know."""
    return profile.recorder if random.random() < SAMPLED else None  # noqa: S311 - a sample, no secret


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
            started = time.perf_counter()
            code = Code.ERROR
            try:
                outcome = run(profile, *args, **kwargs)
                code = status_of(outcome)
                return outcome
            finally:
                recorder.record_point(profile.scheduler_name, point, code.label, time.perf_counter() - started)

        return timed

    return decorate

"""Calls plugins. An exception of a plugin ends the cycle, with an error that names the plugin and extension point."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from extender_service.framework.answer_checks import wrong_awaitable
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.interface import Plugin, PostFilterResult
from extender_service.framework.plugin_errors import RAISED, CycleError, NoTimeLeftError, PluginError, logged_failure
from extender_service.framework.recording import Recorder
from extender_service.framework.status import Code, Status
from extender_service.kube.api_errors import KubeError
from extender_service.seams import Clock

# Verdicts raise CycleError, too, so it is defined beneath them. For callers, it belongs to the errors below.
__all__ = [
    "CycleError",
    "OutOfTimeError",
    "RejectedError",
    "RequestFailedError",
    "awaited",
    "call",
    "call_to_its_end",
    "guarded",
    "require_answer",
    "require_time",
    "running",
]

T = TypeVar("T")


class RejectedError(CycleError):
    """A plugin rejected the pod after its node was chosen, as opposed to failing; `status` names the plugin.

    `waits` is whether the pod waits for an event that the plugin registered, instead of its backoff alone.
    """

    def __init__(self, text: str, status: Status, *, waits: bool = True) -> None:
        super().__init__(text)
        self.status = status
        self.waits = waits


class RequestFailedError(CycleError):
    """A request of a plugin to the API server failed: `error` says how, and `doing` which plugin ran."""

    def __init__(self, doing: str, error: KubeError) -> None:
        super().__init__(f"{doing}: {error}")
        self.doing = doing
        self.error = error


class OutOfTimeError(CycleError):
    """The decision took longer than the caller waits; the text names the plugin that ran when the time was over."""


def require_time(clock: Clock, deadline: float, doing: str) -> None:
    """Raise OutOfTimeError after a deadline in seconds of the clock; `doing` begins its text."""
    if clock() > deadline:
        raise _out_of_time(doing)


def _out_of_time(doing: str) -> OutOfTimeError:
    return OutOfTimeError(f"{doing}: {NoTimeLeftError()}")


# How kube-scheduler words the failure of a plugin, by the extension point as metrics name it (runtime/framework.go).
_RUNNING = {
    "PreEnqueue": 'running PreEnqueue plugin "{}"',
    "PreFilter": 'running PreFilter plugin "{}"',
    "Filter": 'running "{}" filter plugin',
    "PostFilter": 'running PostFilter plugin "{}"',
    "PreScore": 'running PreScore plugin "{}"',
    "Score": 'running Score plugins: plugin "{}" failed with',
    "ScoreExtensionNormalize": 'running Normalize on Score plugins: plugin "{}" failed with',
    "Reserve": 'running Reserve plugin "{}"',
    "Permit": 'running Permit plugin "{}"',
    "PreBindPreFlight": 'running PreBindPreFlight "{}"',
    "PreBind": 'running PreBind plugin "{}"',
    "Bind": 'running Bind plugin "{}"',
}


def running(plugin: Plugin, point: str) -> str:
    """Return how kube-scheduler begins the text of an error of this plugin at this extension point."""
    return _RUNNING[point].format(plugin.name)


def call(state: CycleState, plugin: Plugin, point: str, method: Callable[..., T], *args: object) -> T:
    """Call a plugin, and record how long it takes. Raises CycleError, OutOfTimeError if the deadline is over then."""
    if state.recorder is not None:
        answer = _recorded(state.recorder, state.clock, plugin, point, method, *args)
    else:
        try:
            answer = method(*args)
        except CycleError:
            raise
        except RAISED as error:
            raise _failure(plugin, point, error) from error
    if state.clock() > state.deadline:
        raise _out_of_time(running(plugin, point))
    return answer


def call_to_its_end(state: CycleState, plugin: Plugin, point: str, method: Callable[..., T], *args: object) -> T:
    """Like `call`, but return also an answer that comes after the deadline."""
    if state.recorder is None:
        return guarded(plugin, point, method, *args)
    return _recorded(state.recorder, state.clock, plugin, point, method, *args)


def _recorded(
    recorder: Recorder, clock: Clock, plugin: Plugin, point: str, method: Callable[..., T], *args: object
) -> T:
    started = clock()
    code = Code.ERROR
    try:
        answer = guarded(plugin, point, method, *args)
        code = _code_of(answer)
        return answer
    finally:
        recorder.record_plugin(plugin.name, point, code.label, clock() - started)


def _code_of(answer: object) -> Code:
    """Return the code under which an answer of a plugin is recorded."""
    status = answer.status if isinstance(answer, PostFilterResult) else answer
    return status.code if isinstance(status, Status) else Code.SUCCESS


def guarded(plugin: Plugin, point: str, method: Callable[..., T], *args: object) -> T:
    """Call a plugin, however long it takes. Raises CycleError."""
    try:
        return method(*args)
    except CycleError:
        raise  # from a plugin that ran other plugins
    except RAISED as error:
        raise _failure(plugin, point, error) from error


async def awaited(plugin: Plugin, point: str, method: Callable[..., Awaitable[T]], *args: object) -> T:
    """Call a plugin and await its answer.

    Raises CycleError. A KubeError passes unchanged, since the caller may have to read the object to learn its state. So
    does CancelledError if this task is being cancelled, and not one that the plugin awaited.
    """
    try:
        answer = method(*args)
        if (wrong := wrong_awaitable(answer)) is not None:
            raise PluginError(f"it returned {wrong}")
        return await answer
    except KubeError:
        raise
    except RAISED as error:
        if isinstance(error, asyncio.CancelledError) and _is_cancelled():
            raise
        raise _failure(plugin, point, error) from error


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def require_answer(plugin: Plugin, point: str, wrong: str | None) -> None:
    """Raise CycleError if something is wrong with a plugin's answer."""
    if wrong is not None:
        raise CycleError(f"{running(plugin, point)}: it returned {wrong}")


def _failure(plugin: Plugin, point: str, error: BaseException) -> CycleError:
    """Return the CycleError for an exception of a plugin, and log it if it is the plugin's own fault."""
    doing = running(plugin, point)
    if isinstance(error, NoTimeLeftError):
        return OutOfTimeError(f"{doing}: {error}")
    return logged_failure(doing, error)

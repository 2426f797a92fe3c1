"""From the chosen node to the bound pod: Reserve, Permit, PreBind, Bind and PostBind (schedule_one.go)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

from extender_service.config.rules import DEFAULT_RULES, Rules
from extender_service.framework.answer_checks import wrong_permit, wrong_status
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.guard import (
    CycleError,
    RejectedError,
    RequestFailedError,
    awaited,
    guarded,
    require_answer,
    running,
)
from extender_service.framework.interface import Plugin, PreBind
from extender_service.framework.plugin_errors import RAISED
from extender_service.framework.profile import Profile
from extender_service.framework.recording import Recorder, code_of, extension_point
from extender_service.framework.status import Code, Status, unschedulable
from extender_service.framework.waiting_pods import MAX_WAIT_SECONDS, WaitingPod
from extender_service.kube.api_errors import KubeError
from extender_service.kube.types.core import Pod
from extender_service.kube.types.pods import pod_uid
from extender_service.seams import Clock

log = logging.getLogger(__name__)


BindElsewhere = Callable[[Pod, str], Awaitable[bool]]
"""Binds a pod to a node, unless that is left to the plugins: returns whether it did. Raises KubeError as Bind does."""


class BindingCycle:
    """The steps after a node was chosen for a pod. They raise RejectedError if a plugin rejects the pod, CycleError if
    one fails.

    A caller that gives up after `reserve` calls `unreserve`; calling it more than once does no harm.
    """

    # The PreBind plugins that have work to do; None for all.
    _pre_bind_plugins: Sequence[PreBind] | None = None
    # While PreBind runs, and why it is to end.
    _pre_binding: asyncio.Task[Any] | None = None
    _preempted = ""

    def __init__(
        self,
        profile: Profile,
        state: CycleState,
        pod: Pod,
        node_name: str,
        bind_elsewhere: BindElsewhere | None = None,
        rules: Rules = DEFAULT_RULES,
    ) -> None:
        """`bind_elsewhere`, if given, is asked to bind the pod before the plugins are."""
        self.node_name = node_name
        # Once true, only the API server knows whether the pod is bound, until Bind ends.
        self.has_reached_bind = False
        self.post_bind_has_run = False
        self.bind_count = 0
        self._profile = profile
        self._state = state
        self._pod = pod
        self._bind_elsewhere = bind_elsewhere
        self._rules = rules
        self._is_permitted = False
        # While a Permit plugin makes the pod wait.
        self._waiting: WaitingPod | None = None

    @property
    def scheduler_name(self) -> str:
        """The profile's name."""
        return self._profile.scheduler_name

    @property
    def recorder(self) -> Recorder | None:
        """Receives the durations of the steps; None if they are not recorded."""
        return self._profile.recorder

    @property
    def clock(self) -> Clock:
        """The clock that measures the durations."""
        return self._profile.clock

    @extension_point("Reserve")
    def reserve(self) -> None:
        """Run Reserve; if a plugin refuses or fails, undo all reservations."""
        call: Callable[..., Status | None] = guarded if self._state.recorder is None else self._timed
        for plugin in self._profile.reserve:
            try:
                status = call(plugin, "Reserve", plugin.reserve, self._state, self._pod, self.node_name)
                _require_none(plugin, "Reserve", status)
            except CycleError:
                self.unreserve()
                raise

    @extension_point("Unreserve")
    def unreserve(self) -> None:
        """Run Unreserve in reverse order, for all plugins even if one fails.

        This also ends a wait in Permit: the pod was deleted, or gets another node.
        """
        for plugin in reversed(self._profile.reserve):
            with self._stopwatch(plugin, "Unreserve"):
                try:
                    plugin.unreserve(self._state, self._pod, self.node_name)
                except RAISED:
                    log.exception("Unreserve failed", extra={"plugin": plugin.name})
        self._end_wait("its place was given up")

    def _end_wait(self, why: str) -> None:
        if self._waiting is not None:
            self._waiting.reject("", why)
            self._stop_waiting(self._waiting)

    def permit(self) -> None:
        """Run Permit. If a plugin makes the pod wait, plugins find it in `waiting_pods` from now on.

        `run_to_bind` calls this unless the caller has: one that places pod after pod runs Permit before it turns to the
        next.
        """
        waits: dict[str, float] = {}
        with self._point("Permit") as point:
            for plugin in self._profile.permit:
                with self._stopwatch(plugin, "Permit") as stopwatch:
                    answer = guarded(plugin, "Permit", plugin.permit, self._state, self._pod, self.node_name)
                    require_answer(plugin, "Permit", wrong_permit(answer))
                    status, seconds = answer
                    if status is not None and status.code == Code.WAIT:
                        stopwatch.code = point.code = Code.WAIT
                        # As in Go, a wait below zero ends at once. So does one of minus infinity.
                        waits[plugin.name] = max(min(seconds, MAX_WAIT_SECONDS), -MAX_WAIT_SECONDS)
                    else:
                        _require_none(plugin, "Permit", status)
        if waits:
            self._waiting = WaitingPod(self._pod, self.node_name, waits)
            self._profile.waiting_pods.add(pod_uid(self._pod), self._waiting)
        self._is_permitted = True

    def pre_flight(self) -> bool:
        """Run PreBindPreFlight; plugins that skip are left out of PreBind.

        Returns whether the binding will wait: in Permit, which has run, or for a plugin that has work to do.
        """
        with self._point("PreBindPreFlight") as point:
            self._pre_bind_plugins = [plugin for plugin in self._profile.pre_bind if self._has_work(plugin)]
            if not self._pre_bind_plugins:
                point.code = Code.SKIP
        return bool(self._waiting is not None or self._pre_bind_plugins)

    def _has_work(self, plugin: PreBind) -> bool:
        call: Callable[..., Status | None] = guarded if self._state.recorder is None else self._timed
        status = call(plugin, "PreBindPreFlight", plugin.pre_bind_pre_flight, self._state, self._pod, self.node_name)
        if isinstance(status, Status) and status.code == Code.SKIP:
            return False
        if status is not None:
            require_answer(plugin, "PreBindPreFlight", wrong_status(status))
            raise CycleError(f"{running(plugin, 'PreBindPreFlight')}: {status.message}")
        return True

    async def run_to_bind(self, may_bind: Callable[[], None] = lambda: None) -> None:
        """Run Permit, wait if a plugin asks for it, then run PreBind and Bind. `may_bind` is called right before Bind.

        Raises CycleError, also from `may_bind`. Raises KubeError from Bind, with a note of which plugin ran. Once
        Bind is reached, only the API server knows after an error whether the pod is bound, unless that is a rejection.
        """
        self._preempted = ""
        self.has_reached_bind = False  # a second attempt does not depend on how far the first one got
        if not self._is_permitted:
            self.permit()
        self._is_permitted = False
        await self._wait_on_permit()
        with self._point("PreBind"):
            await self._run_pre_bind()
        may_bind()
        with self._point("Bind"):
            await self._run_bind()

    @extension_point("PostBind")
    def run_post_bind(self) -> None:
        """Run PostBind once the pod is bound; later calls do nothing."""
        if self.post_bind_has_run:
            return
        self.post_bind_has_run = True
        self._end_wait("the pod is bound already")  # by another scheduler or an extender: before its binding began
        for plugin in self._profile.post_bind:
            with self._stopwatch(plugin, "PostBind"):
                try:
                    plugin.post_bind(self._state, self._pod, self.node_name)
                except RAISED:
                    log.exception("PostBind failed", extra={"plugin": plugin.name})

    def preempt_in_pre_bind(self, why: str) -> bool:
        """Have PreBind end with an error; returns whether it was running."""
        if self._pre_binding is None:
            return False
        if not self._preempted:
            self._preempted = why
            self._pre_binding.cancel()
        return True

    async def _run_pre_bind(self) -> None:
        task = self._pre_binding = asyncio.current_task()
        try:
            plugins = self._profile.pre_bind if self._pre_bind_plugins is None else self._pre_bind_plugins
            for plugin in plugins:
                with self._stopwatch(plugin, "PreBind"):
                    await self._run_pre_bind_plugin(plugin)
                # In both cases, the plugin has finished nevertheless. The next one, or Bind, would not know of the end.
                if self._preempted:
                    raise CycleError(self._preempted)
                if task is not None and task.cancelling():
                    raise asyncio.CancelledError
        finally:
            self._pre_binding = None
            if self._preempted and task is not None:
                task.uncancel()

    async def _run_pre_bind_plugin(self, plugin: PreBind) -> None:
        try:
            status = await awaited(plugin, "PreBind", plugin.pre_bind, self._state, self._pod, self.node_name)
        except KubeError as error:
            raise RequestFailedError(running(plugin, "PreBind"), error) from error
        except asyncio.CancelledError:
            if not self._preempted:
                raise
            raise CycleError(f"{running(plugin, 'PreBind')}: {self._preempted}") from None
        if isinstance(status, Status) and status.code == Code.PENDING:  # which no release heeds in PreBind
            status = unschedulable(*status.reasons)
        _require_none(plugin, "PreBind", status, waits=not self._rules.pre_bind_rejection_backs_off)

    async def _wait_on_permit(self) -> None:
        waiting = self._waiting
        if waiting is None:
            return
        started = self.clock()
        try:
            rejection = await waiting.wait()
        finally:
            self._stop_waiting(waiting)
        if self.recorder is not None:
            code = Code.SUCCESS if rejection is None else rejection.code
            self.recorder.record_permit_wait(code.label, self.clock() - started)
        if rejection is not None and rejection.code == Code.ERROR:
            raise CycleError(f"waiting on permit for pod: {rejection.message}")
        if rejection is not None:
            text = f'waiting on Permit plugin "{rejection.plugin}": {rejection.message}'
            raise RejectedError(text, rejection)

    def _stop_waiting(self, waiting: WaitingPod) -> None:
        self._profile.waiting_pods.remove(pod_uid(self._pod), waiting)
        self._waiting = None

    async def _run_bind(self) -> None:
        self.has_reached_bind = True
        self.bind_count += 1
        if self._bind_elsewhere is not None and await self._bind_elsewhere(self._pod, self.node_name):
            return
        for plugin in self._profile.bind:
            with self._stopwatch(plugin, "Bind") as stopwatch:
                try:
                    status = await awaited(plugin, "Bind", plugin.bind, self._state, self._pod, self.node_name)
                except KubeError as error:
                    error.add_note(running(plugin, "Bind"))
                    raise
                if isinstance(status, Status) and status.code == Code.SKIP:
                    stopwatch.code = Code.SKIP
                    continue
                _require_none(plugin, "Bind", status, waits=False)
                return
        self.has_reached_bind = False
        raise CycleError("no Bind plugin took the pod")

    def _timed(
        self, plugin: Plugin, point: str, method: Callable[..., Status | None], *arguments: object
    ) -> Status | None:
        with self._stopwatch(plugin, point) as stopwatch:
            status = guarded(plugin, point, method, *arguments)
            if isinstance(status, Status):
                stopwatch.code = status.code
            return status

    def _point(self, point: str) -> "_Stopwatch":
        """Return what records how long an extension point takes."""
        recorder = self.recorder
        record = None if recorder is None else partial(recorder.record_point, self.scheduler_name, point)
        return _Stopwatch(self.clock, record)

    def _stopwatch(self, plugin: Plugin, point: str) -> "_Stopwatch":
        """Return what records how long a plugin takes, if this decision is in the sample."""
        recorder = self._state.recorder
        record = None if recorder is None else partial(recorder.record_plugin, plugin.name, point)
        return _Stopwatch(self.clock, record)


class _Stopwatch:
    """A context whose duration is recorded, with `code`, or that of what it raises."""

    def __init__(self, clock: Clock, record: Callable[[str, float], None] | None) -> None:
        self._clock = clock
        self._record = record
        self._started = 0.0
        self.code = Code.SUCCESS

    def __enter__(self) -> Self:
        if self._record is not None:
            self._started = self._clock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._record is None:
            return
        if error is not None:
            self.code = code_of(error)
        self._record(self.code.label, self._clock() - self._started)


def _require_none(plugin: Plugin, point: str, status: Status | None, *, waits: bool = True) -> None:
    """Raise CycleError if a plugin refuses, or returns something other than a status or None."""
    if status is not None:
        require_answer(plugin, point, wrong_status(status))
        text = f"{running(plugin, point)}: {status.message}"
        if status.is_rejection:
            raise RejectedError(text, status.given_by(plugin.name), waits=waits)
        raise CycleError(text)

"""Which plugins want to be asked about which change, before a pod that they rejected is tried again.

The rules are those of buildQueueingHintMap in kube-scheduler's scheduler.go. There, a plugin that serves PreBind alone
is left out, and what it rejects waits for the flush of leftovers; here it has its say like the others.
"""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from extender_service.config.rules import Rules
from extender_service.framework.cluster_event import (
    ASSIGNED_POD,
    EVERY_CHANGE,
    NODE,
    POD,
    TARGET_POD,
    UNSCHEDULED_POD,
    VOLUME_ATTACHMENT,
    WILD_CARD,
    ActionType,
    ClusterEvent,
    QueueingHint,
)
from extender_service.framework.interface import Plugin
from extender_service.framework.plugin_errors import RAISED, is_fault, text_of
from extender_service.kube.types.core import Pod, pod_name
from extender_service.seams import Clock

log = logging.getLogger(__name__)

# What stands for all extenders among the plugins that rejected a pod.
EXTENDER: Final = "Extender"

HintFunction = Callable[[ClusterEvent, Pod, Any, Any], QueueingHint]

_KNOWN = (
    *(event.resource for event in EVERY_CHANGE),
    ASSIGNED_POD,
    UNSCHEDULED_POD,
    TARGET_POD,
    VOLUME_ATTACHMENT,
    WILD_CARD,
)
# What schema.ParseResourceArg takes apart, such as widgets.v1.example.com; the group of core kinds is empty.
_PLURAL_VERSION_GROUP = re.compile(r"[a-z0-9-]+\.v[0-9]+((alpha|beta)[0-9]+)?\.[a-z0-9.-]*")
_NODE_TAINTED = ClusterEvent(NODE, ActionType.UPDATE_NODE_TAINT)


class RegisteredHint(NamedTuple):
    """A plugin that registered an event, and the function to ask with (event, pod, old, new). It does not raise."""

    plugin: str
    ask: HintFunction


QueueingHints = Mapping[ClusterEvent, Sequence[RegisteredHint]]


class HintTiming(NamedTuple):
    """Receives how long each hint function took, in seconds of `clock`: plugin, the event's label, outcome, seconds."""

    clock: Clock
    asked: Callable[[str, str, str, float], None]


# The outcome of a hint function that failed, for metrics.
_ERROR: Final = "Error"

# How long the hints of a plugin may take in one turn of the event loop. An event may concern thousands of pods, and
# nothing else runs until all are asked about, not even what renews the lease.
MOST_SECONDS_A_TURN: Final = 1.0
# Turns are told apart once so much time is spent: most hints take microseconds.
_NOTED_SECONDS: Final = 0.01


class RetryOnError(ValueError):
    """A plugin's `retry_on` that means nothing; the text says what would be right."""


def queueing_hints(
    plugins: Iterable[Plugin], rules: Rules, *, with_extenders: bool = False, timing: HintTiming | None = None
) -> QueueingHints:
    """Return the plugins to ask by the event that they registered, in the order of the plugins.

    Without the rule queueing_hints, all functions answer QUEUE. `with_extenders`, each change is worth another attempt
    for a pod for which an extender rejected nodes. `timing`, if given, receives the durations of functions, which then
    belong to one event loop: a plugin whose functions take MOST_SECONDS_A_TURN is asked about no more pods in that
    turn. Without hints, they take no time. Raises RetryOnError.
    """
    hints: dict[ClusterEvent, list[RegisteredHint]] = {}
    if with_extenders:
        hints = {event: [RegisteredHint(EXTENDER, _queue)] for event in EVERY_CHANGE}
    for plugin in plugins:
        check_retry_on(plugin, rules)
        ask = _Asking(plugin, timing) if rules.queueing_hints else _queue
        for event in plugin.retry_on:
            hints.setdefault(event, []).append(RegisteredHint(plugin.name, ask))
        if _misses_nodes(plugin.retry_on) and not rules.tainted_nodes_shown:
            hints.setdefault(_NODE_TAINTED, []).append(RegisteredHint(plugin.name, _queue))
    return hints


def check_retry_on(plugin: Plugin | type[Plugin], rules: Rules) -> None:
    """Raise RetryOnError unless the `retry_on` of a plugin or its class is a sequence of events that can happen in the
    release."""
    events: object = plugin.retry_on
    if isinstance(events, ClusterEvent | str) or not isinstance(events, Sequence):
        raise RetryOnError(
            f"retry_on must be a tuple of ClusterEvents, such as (ClusterEvent(NODE, ActionType.ADD),); "
            f"it is a {type(events).__name__}"
        )
    for index, event in enumerate(events):
        here = f"retry_on[{index}]"
        if not isinstance(event, ClusterEvent):
            raise RetryOnError(f"{here} must be a ClusterEvent; it is a {type(event).__name__}")
        action: object = event.action
        if not isinstance(action, ActionType) or not action:
            raise RetryOnError(f"{here}.action must be one or more of ActionType; it is {action!r}")
        if event.resource not in _KNOWN and not _PLURAL_VERSION_GROUP.fullmatch(str(event.resource)):
            raise RetryOnError(
                f"{here}.resource must be one of {', '.join(_KNOWN)}, or plural.version.group as in "
                f"widgets.v1.example.com; it is {event.resource!r}"
            )
        if (first := _known_from(event.resource, rules)) is not None:
            raise RetryOnError(
                f"{here}.resource: no event before {first} is about {event.resource}, and {rules.release} is followed: "
                f"use {POD}, which stands for all pods in every release"
            )


def _known_from(resource: str, rules: Rules) -> str | None:
    """Return the first release whose events name a kind of pods, None if the one that is followed does."""
    if resource == ASSIGNED_POD:
        return None if rules.events_named_by_action else "1.32"
    if resource in (UNSCHEDULED_POD, TARGET_POD):
        return None if rules.own_changes_named else "1.37"
    return None


def _misses_nodes(events: Iterable[ClusterEvent]) -> bool:
    """Whether new nodes matter, but not their taints. A node that is added with a taint is hidden from the queue until
    the taint goes, so that must wake the pods as well."""
    actions = ActionType(0)
    for event in events:
        if event.resource == NODE:
            actions |= event.action
    return ActionType.ADD in actions and ActionType.UPDATE_NODE_TAINT not in actions


def _queue(event: ClusterEvent, pod: Pod, old: object, new: object) -> QueueingHint:
    del event, pod, old, new
    return QueueingHint.QUEUE


class _Asking:
    """Asks a plugin, and answers QUEUE where it fails or takes too long: then the pod is tried once too often, and
    not never.

    An event may concern thousands of pods, so each kind of failure of a plugin is logged once.
    """

    def __init__(self, plugin: Plugin, timing: HintTiming | None) -> None:
        self._plugin = plugin
        self._timing = timing
        self._logged: set[str] = set()
        # In this turn: how long hints took and, by event, about how many pods the plugin was not asked after that.
        self._seconds = 0.0
        self._unasked: Counter[str] = Counter()
        self._ends_turn = False

    def __call__(self, event: ClusterEvent, pod: Pod, old: Any, new: Any) -> QueueingHint:
        if self._timing is None:
            return self._ask(event, pod, old, new) or QueueingHint.QUEUE
        if self._seconds > MOST_SECONDS_A_TURN:
            self._unasked[event.label] += 1
            return QueueingHint.QUEUE
        clock, asked = self._timing
        started = clock()
        hint = self._ask(event, pod, old, new)
        seconds = clock() - started
        self._seconds += seconds
        if self._seconds > _NOTED_SECONDS and not self._ends_turn:
            self._ends_turn = True
            asyncio.get_running_loop().call_soon(self._end_turn)
        asked(self._plugin.name, event.label, _ERROR if hint is None else hint.value, seconds)
        return hint or QueueingHint.QUEUE

    def _end_turn(self) -> None:
        for event, count in self._unasked.items():
            log.warning(
                "the queueing hints of a plugin took too long, so other pods that it rejected are tried again unasked",
                extra={"plugin": self._plugin.name, "event": event, "pods": count, "seconds": round(self._seconds, 3)},
            )
        self._unasked.clear()
        self._seconds, self._ends_turn = 0.0, False

    def _ask(self, event: ClusterEvent, pod: Pod, old: Any, new: Any) -> QueueingHint | None:
        """Return what the plugin answers, None if it fails."""
        try:
            hint: object = self._plugin.queueing_hint(event, pod, old, new)
        except RAISED as error:
            self._log(event, pod, type(error).__name__, text_of(error), error)
        else:
            if isinstance(hint, QueueingHint):
                return hint
            returned = type(hint).__name__
            self._log(event, pod, returned, f"it returned {returned}, not a QueueingHint")
        return None

    def _log(self, event: ClusterEvent, pod: Pod, kind: str, text: str, error: BaseException | None = None) -> None:
        if kind in self._logged:
            return
        self._logged.add(kind)
        log.error(
            "a queueing hint failed, so the pod is tried again; later failures of this kind are not logged",
            # Where it is the plugin's own fault, its traceback is of use.
            exc_info=error if error is not None and is_fault(error) else None,
            extra={
                "plugin": self._plugin.name,
                "event": event.label,
                "pod": pod_name(pod),
                "kind": kind,
                "error": text,
            },
        )

"""Which plugins want an event, and what they say of it about a pod (isEventOfInterest, isPodWorthRequeuing)."""

import enum
import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from extender_service.caches import LruCache
from extender_service.config.rules import Rules
from extender_service.framework.cluster_event import POD, ClusterEvent, QueueingHint
from extender_service.framework.queueing_hints import HintFunction, QueueingHints
from extender_service.kube.types.pods import pod_uid
from extender_service.queue.queued_pod import QueuedPodInfo

log = logging.getLogger(__name__)

# The kinds of events of a program are few, since plugins register kinds of objects.
_MOST_EVENTS = 512
_MOST_BYTES = 8 << 20
_BYTES_A_FUNCTION = 100


class Requeueing(enum.Enum):
    """What becomes of a rejected pod."""

    SKIP = enum.auto()
    AFTER_BACKOFF = enum.auto()
    IMMEDIATELY = enum.auto()


class Interest(NamedTuple):
    """Who wants an event: hint functions by profile and plugin, and the plugins of all profiles.

    The plugins have an order, in which pods are moved: that of a set differs from one run of the program to the next.
    """

    functions: Mapping[str, Mapping[str, Sequence[HintFunction]]]
    plugins: Sequence[str]


class InterestedPlugins:
    """Answers for the plugins of all profiles, from the events that they registered: by profile."""

    def __init__(self, hints: Mapping[str, QueueingHints], rules: Rules) -> None:
        self._hints = hints
        self._wants = ClusterEvent.covers if rules.other_updates_for_all else ClusterEvent.matches
        self._interests: LruCache[ClusterEvent, Interest | None] = LruCache(
            "plugins interested in an event", most_entries=_MOST_EVENTS, most_bytes=_MOST_BYTES
        )

    def of(self, event: ClusterEvent) -> Interest | None:
        """Return the plugins that want an event, None if there are none. A wild card concerns every pod."""
        interest = self._interests[event]
        if interest is None:
            interest = self._find(event)
            functions = sum(len(asks) for by_plugin in interest.functions.values() for asks in by_plugin.values())
            self._interests.keep(event, interest, _BYTES_A_FUNCTION * (functions + len(interest.plugins)))
        return interest if interest.plugins or event.is_wild_card else None

    def requeueing(self, info: QueuedPodInfo, event: ClusterEvent, old: Any, new: Any) -> Requeueing:
        """Return what an event means to a pod that was rejected.

        Only plugins that rejected the pod are asked. If one that is pending says QUEUE, the pod does not wait for the
        end of its backoff. SKIP for kinds of events that `may_matter` excludes.
        """
        pending = info.pending_plugins
        if not info.unschedulable_plugins and not pending:
            return Requeueing.AFTER_BACKOFF
        if event.is_wild_card:
            is_other = new is not None and pod_uid(new) != pod_uid(info.pod)  # a pod that is activated is meant alone
            return Requeueing.SKIP if is_other else Requeueing.AFTER_BACKOFF
        profile = info.pod.spec.scheduler_name
        if profile not in self._hints:
            log.error("no profile of this name, so the pod is tried again", extra={"profile": profile, "pod": info.key})
            return Requeueing.AFTER_BACKOFF
        interest = self.of(event)
        functions = None if interest is None else interest.functions.get(profile)
        if functions is None:
            return Requeueing.SKIP
        for plugin in pending:
            if _one_queues(functions.get(plugin, ()), event, info, old, new):
                return Requeueing.IMMEDIATELY
        for plugin in info.unschedulable_plugins - pending:
            if _one_queues(functions.get(plugin, ()), event, info, old, new):
                return Requeueing.AFTER_BACKOFF
        return Requeueing.SKIP

    def may_matter(self, info: QueuedPodInfo, event: ClusterEvent) -> bool:
        """Return whether events of a kind can move a pod that was rejected: whether any plugin would be asked."""
        rejecting = info.unschedulable_plugins | info.pending_plugins
        profile = info.pod.spec.scheduler_name
        if not rejecting or event.is_wild_card or profile not in self._hints:
            return True
        interest = self.of(event)
        functions = None if interest is None else interest.functions.get(profile)
        return functions is not None and not rejecting.isdisjoint(functions)

    def _find(self, event: ClusterEvent) -> Interest:
        functions: dict[str, dict[str, list[HintFunction]]] = {}
        for profile, hints in self._hints.items():
            for registered, asked in hints.items():
                if self._wants(registered, event):
                    by_plugin = functions.setdefault(profile, {})
                    for plugin, ask in asked:
                        by_plugin.setdefault(plugin, []).append(_asking(ask, registered, event))
        return Interest(functions, [*dict.fromkeys(plugin for by_plugin in functions.values() for plugin in by_plugin)])


def as_registered(event: ClusterEvent, registered: ClusterEvent) -> ClusterEvent:
    """Return an event that a plugin wants under the resource that the plugin knows: Pod, if it registered that."""
    return event._replace(resource=POD) if registered.resource == POD else event


def _asking(ask: HintFunction, registered: ClusterEvent, event: ClusterEvent) -> HintFunction:
    known = as_registered(event, registered)
    return ask if known == event else lambda _, pod, old, new: ask(known, pod, old, new)


def _one_queues(asked: Sequence[HintFunction], event: ClusterEvent, info: QueuedPodInfo, old: Any, new: Any) -> bool:
    return any(ask(event, info.pod, old, new) is QueueingHint.QUEUE for ask in asked)

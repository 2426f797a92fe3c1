"""The second look: before filter refuses every node, it waits a moment for the watch.

kube-scheduler may ask because of an event that our watch has not shown yet, and a refusal can delay the pod by minutes.
"""

from collections.abc import Callable

from extender_service.cluster.state.changes import Change
from extender_service.cluster.state.cluster import Cluster
from extender_service.extender.watch_lag import WatchLag
from extender_service.framework.cluster_event import (
    ASSIGNED_POD,
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    STORAGE_CLASS,
    UNSCHEDULED_POD,
    VOLUME_ATTACHMENT,
    WILD_CARD,
    ActionType,
    ClusterEvent,
)
from extender_service.scheduling.decision import Decision
from extender_service.scheduling.question import Question
from extender_service.seams import Clock

# The most seconds that one call waits, unless it shows that our watch is behind.
PATIENCE_SECONDS = 0.025
# The share of time that all calls together may wait, and the most seconds that may be saved up. One call may use all of
# these if it shows that our watch is behind.
SHARE = 0.05
SAVED_SECONDS = 0.25


class WaitBudget:
    """Seconds that calls may still spend waiting: they grow with the clock and are used up by waits."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left = SAVED_SECONDS
        self._at = clock()

    def allowance(self) -> float:
        """Return how long a call may wait now, in seconds; 0 if it may not, otherwise at least PATIENCE_SECONDS."""
        now = self._clock()
        self._left = min(SAVED_SECONDS, self._left + SHARE * (now - self._at))
        self._at = now
        return self._left if self._left >= PATIENCE_SECONDS else 0.0

    def spend(self, seconds: float) -> None:
        """Subtract a wait from the budget."""
        self._left -= seconds


class SecondLook:
    """Decides again once the watch has shown a change that could help."""

    def __init__(self, cluster: Cluster, lag: WatchLag, clock: Clock) -> None:
        self._cluster = cluster
        self._lag = lag
        self._clock = clock
        self._budget = WaitBudget(clock)

    async def decide(self, refused: Decision, decide: Callable[[], Decision], deadline: float) -> tuple[Decision, bool]:
        """Return the last decision, and whether it followed a wait. `decide` makes a new decision about all nodes.

        All nodes that the returned decision knew are still there.
        The call waits for PATIENCE_SECONDS, and longer for as long as it shows that our watch is behind.
        """
        if refused.is_final or not len(refused.question.nodes.names):
            return refused, False
        left = min(self._budget.allowance(), deadline - self._clock())
        patience = PATIENCE_SECONDS
        decision, looked_again = refused, False
        while not len(decision.feasible):
            seconds = min(left, PATIENCE_SECONDS if self._is_behind(decision.question) else patience)
            if seconds <= 0:
                break
            helpful = _helpful(decision)
            if not helpful:
                break
            looked_again = True
            # A decision has its nodes by row, and another node may get the row of one that is gone.
            came, waited = await self._wait(helpful | Change.NODE_REMOVED, seconds)
            left -= waited
            patience -= waited
            if came:
                decision = decide()
        return decision, looked_again

    def _is_behind(self, question: Question) -> bool:
        pod, nodes = question.pod, question.nodes
        return self._lag.is_behind(pod, nodes) or self._lag.awaits_room(pod, nodes)

    async def _wait(self, changes: Change, seconds: float) -> tuple[bool, float]:
        """Wait for one of these changes; returns whether one came, and how long that took."""
        started = self._clock()
        came = await self._cluster.changes.wait(changes, seconds)
        waited = self._clock() - started
        self._budget.spend(waited)
        return came, waited if came else max(waited, seconds)


# What the cluster reports when an object of a resource is added, updated or deleted.
_REPORTED = {
    NODE: (Change.NODE_ADDED, Change.NODE_UPDATED, Change.NODE_REMOVED),
    # A nominated pod takes room, too, until it is bound or its nomination ends.
    POD: (Change.POD_ADDED, Change.POD_ADDED, Change.POD_REMOVED | Change.NOMINATION_ENDED),
    PERSISTENT_VOLUME: (Change.VOLUME,) * 3,
    PERSISTENT_VOLUME_CLAIM: (Change.CLAIM,) * 3,
    STORAGE_CLASS: (Change.STORAGE_CLASS,) * 3,
    CSI_NODE: (Change.CSI_NODE,) * 3,
    CSI_DRIVER: (Change.CSI_DRIVER,) * 3,
    CSI_STORAGE_CAPACITY: (Change.CSI_STORAGE_CAPACITY,) * 3,
    VOLUME_ATTACHMENT: (Change.VOLUME_ATTACHMENT,) * 3,
}
_REPORTED |= dict.fromkeys((ASSIGNED_POD, UNSCHEDULED_POD), _REPORTED[POD])
_NOTHING = (Change(0),) * 3
_ACTIONS = (ActionType.ADD, ActionType.UPDATE, ActionType.DELETE)


def _helpful(decision: Decision) -> Change:
    """Return the changes after which a plugin that refused nodes could pass one."""
    changes = Change.NODE_ADDED if decision.question.nodes.unknown else Change(0)
    refusing = decision.verdicts.rejecting_plugins()
    for plugin in decision.profile.rejecting:
        if plugin.name in refusing:
            for event in plugin.retry_on:
                changes |= _reported(event)
    return changes


def _reported(event: ClusterEvent) -> Change:
    """Return what the cluster reports when an event happens: nothing for a kind that it does not keep."""
    by_action = _REPORTED.values() if event.resource == WILD_CARD else [_REPORTED.get(event.resource, _NOTHING)]
    changes = Change(0)
    for reported in by_action:
        for action, change in zip(_ACTIONS, reported, strict=True):
            if event.action & action:
                changes |= change
    return changes

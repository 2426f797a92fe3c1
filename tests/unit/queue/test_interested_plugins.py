from collections.abc import Sequence
from typing import Any

import pytest

from extender_service.config.rules import DEFAULT_RULES, Rules, rules_of
from extender_service.framework.cluster_event import NODE, POD, WILD_CARD, ActionType, ClusterEvent, QueueingHint
from extender_service.framework.queueing_hints import HintFunction, RegisteredHint
from extender_service.queue.interested_plugins import InterestedPlugins, Requeueing
from extender_service.queue.queued_pod import QueuedPodInfo
from tests.support.clusters.queue_worlds import SCHEDULER, queue_pod

NODES = ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
NODE_ADDED = ClusterEvent(NODE, ActionType.ADD, "NodeAdd")
POD_ADDED = ClusterEvent(POD, ActionType.ADD, "PodAdd")
NODE_TAINTED = ClusterEvent(NODE, ActionType.UPDATE_NODE_TAINT, "NodeTaintChange")
EVERYTHING = ClusterEvent(WILD_CARD, ActionType.ALL, "WildCardEvent")


def queues(event: ClusterEvent, pod: Any, old: Any, new: Any) -> QueueingHint:
    return QueueingHint.QUEUE


def skips(event: ClusterEvent, pod: Any, old: Any, new: Any) -> QueueingHint:
    return QueueingHint.SKIP


def interested(**plugins: HintFunction) -> InterestedPlugins:
    """Plugins that want new nodes and labels of nodes."""
    return InterestedPlugins(
        {SCHEDULER: {NODES: [RegisteredHint(name, ask) for name, ask in plugins.items()]}}, DEFAULT_RULES
    )


def info(*plugins: str, pending: Sequence[str] = ()) -> QueuedPodInfo:
    return QueuedPodInfo(
        queue_pod("a"),
        0.0,
        "default/a",
        unschedulable_plugins=frozenset(plugins),
        pending_plugins=frozenset(pending),
    )


def test_an_event_that_no_plugin_registered_concerns_none() -> None:
    plugins = interested(A=queues)
    assert plugins.of(NODE_TAINTED) is None
    found = plugins.of(NODE_ADDED)
    assert found is not None
    assert found.plugins == ["A"]
    assert plugins.of(NODE_ADDED) is found


def test_a_wild_card_concerns_every_pod() -> None:
    assert InterestedPlugins({SCHEDULER: {}}, DEFAULT_RULES).of(EVERYTHING) is not None


@pytest.mark.parametrize(
    ("rejected", "expected"),
    [
        (info("Queues"), Requeueing.AFTER_BACKOFF),
        (info("Skips"), Requeueing.SKIP),
        (info("Other"), Requeueing.SKIP),
        (info("Skips", "Queues"), Requeueing.AFTER_BACKOFF),
        (info(pending=["Queues"]), Requeueing.IMMEDIATELY),
        (info("Queues", pending=["Queues"]), Requeueing.IMMEDIATELY),
        (info("Queues", pending=["Skips"]), Requeueing.AFTER_BACKOFF),
        (info(pending=["Skips"]), Requeueing.SKIP),
        (info(), Requeueing.AFTER_BACKOFF),
    ],
)
def test_plugins_that_rejected_a_pod_say_what_becomes_of_it(rejected: QueuedPodInfo, expected: Requeueing) -> None:
    assert interested(Queues=queues, Skips=skips).requeueing(rejected, NODE_ADDED, None, None) is expected


def test_a_wild_card_moves_a_pod_whatever_its_plugins_want() -> None:
    assert interested(A=skips).requeueing(info("A"), EVERYTHING, None, None) is Requeueing.AFTER_BACKOFF


def test_a_pod_of_an_unknown_profile_is_tried_again() -> None:
    plugins = InterestedPlugins({"other": {NODES: [RegisteredHint("A", skips)]}}, DEFAULT_RULES)
    assert plugins.requeueing(info("A"), NODE_ADDED, None, None) is Requeueing.AFTER_BACKOFF


def test_a_plugin_gets_the_event_the_pod_and_the_object() -> None:
    asked: list[Any] = []

    def ask(*about: Any) -> QueueingHint:
        asked.append(about)
        return QueueingHint.SKIP

    rejected = info("A")
    interested(A=ask, B=ask).requeueing(rejected, NODE_ADDED, "old", "new")
    assert asked == [(NODE_ADDED, rejected.pod, "old", "new")]


def test_an_event_of_another_kind_of_object_is_another_event() -> None:
    assert interested(A=queues).of(ClusterEvent(POD, ActionType.ADD)) is None


REJECTED_BY = [info("A"), info("B"), info("C"), info(pending=["A"]), info("C", pending=["B"]), info("B", "C"), info()]
KINDS = [NODE_ADDED, NODE_TAINTED, POD_ADDED, ClusterEvent(POD, ActionType.DELETE, "PodDelete"), EVERYTHING]


@pytest.mark.parametrize("rejected", REJECTED_BY)
@pytest.mark.parametrize("event", KINDS)
@pytest.mark.parametrize("profile", [SCHEDULER, "other"])
@pytest.mark.parametrize("rules", [rules_of(31, {}), rules_of(37, {})])
def test_a_kind_of_event_that_cannot_matter_asks_no_plugin_and_moves_no_pod(
    rejected: QueuedPodInfo, event: ClusterEvent, profile: str, rules: Rules
) -> None:
    asked = 0

    def ask(*about: Any) -> QueueingHint:
        nonlocal asked
        asked += 1
        return QueueingHint.SKIP

    anything = ClusterEvent(WILD_CARD, ActionType.ALL)
    registered = {NODES: "A", ClusterEvent(POD, ActionType.ADD): "A", anything: "B"}
    plugins = InterestedPlugins(
        {profile: {event: [RegisteredHint(plugin, ask)] for event, plugin in registered.items()}}, rules
    )
    requeueing = plugins.requeueing(rejected, event, None, None)
    assert plugins.may_matter(rejected, event) is (requeueing is not Requeueing.SKIP or asked > 0)

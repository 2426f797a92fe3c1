"""Which plugins are asked after which change, and what becomes of their answers."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, cast

import pytest

from extender_service.config.rules import rules_of
from extender_service.framework.cluster_event import (
    ASSIGNED_POD,
    EVERY_CHANGE,
    NODE,
    PERSISTENT_VOLUME,
    POD,
    TARGET_POD,
    UNSCHEDULED_POD,
    WILD_CARD,
    ActionType,
    ClusterEvent,
    QueueingHint,
)
from extender_service.framework.interface import Filter, Permit, Plugin, PreBind, PreEnqueue, PreFilter, Reserve, Score
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.profile import Profile
from extender_service.framework.queueing_hints import (
    HintTiming,
    QueueingHints,
    RetryOnError,
    check_retry_on,
    queueing_hints,
)
from extender_service.kube.types.core import Pod
from tests.support.clock import Clock
from tests.support.event_loop import in_event_loop

POD_DELETED = ClusterEvent(POD, ActionType.DELETE)
NODE_ADDED = ClusterEvent(NODE, ActionType.ADD)
NODE_TAINTED = ClusterEvent(NODE, ActionType.UPDATE_NODE_TAINT)
WIDGET_ADDED = ClusterEvent("widgets.v1.example.com", ActionType.ADD)


class Asked(Plugin):
    """A plugin that says SKIP of everything, and keeps what it was asked."""

    name = "Asked"

    def __init__(self, *retry_on: ClusterEvent, name: str = "Asked") -> None:
        super().__init__(None, cast(Any, None))
        self.retry_on = retry_on
        self.name = name  # type: ignore[misc]
        self.asked: list[tuple[object, ...]] = []

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: Any, new: Any) -> QueueingHint:
        self.asked.append((event, pod, old, new))
        return QueueingHint.SKIP


class Silent(Plugin):
    """A plugin that says nothing of when to try again."""

    name = "Silent"


class Failing(Asked):
    """A plugin whose hint raises, or returns something else."""

    def __init__(self, fails_with: object) -> None:
        super().__init__(POD_DELETED)
        self.fails_with = fails_with

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: Any, new: Any) -> QueueingHint:
        if isinstance(self.fails_with, BaseException):
            raise self.fails_with
        return cast(QueueingHint, self.fails_with)


def hints(*plugins: Plugin, enabled: bool = True) -> QueueingHints:
    return queueing_hints(plugins, rules_of(31, {"SchedulerQueueingHints": enabled}))


def names(found: QueueingHints) -> dict[ClusterEvent, list[str]]:
    return {event: [hint.plugin for hint in by_plugin] for event, by_plugin in found.items()}


def only_answer(found: QueueingHints, event: ClusterEvent = POD_DELETED) -> QueueingHint:
    (hint,) = found[event]
    return hint.ask(event, Pod(), Pod(), None)


def test_plugins_are_found_by_the_events_that_they_registered() -> None:
    first, second = Asked(POD_DELETED, WIDGET_ADDED, name="First"), Asked(POD_DELETED, name="Second")
    assert names(hints(first, second)) == {POD_DELETED: ["First", "Second"], WIDGET_ADDED: ["First"]}


def test_a_plugin_is_told_what_happened() -> None:
    plugin, pod, old, new = Asked(NODE_TAINTED), Pod(), object(), object()
    happened = ClusterEvent(NODE, ActionType.UPDATE_NODE_TAINT, "NodeTaintChange")
    assert hints(plugin)[NODE_TAINTED][0].ask(happened, pod, old, new) is QueueingHint.SKIP
    assert plugin.asked == [(happened, pod, old, new)]


def test_without_hints_every_registered_event_helps() -> None:
    plugin = Asked(POD_DELETED)
    assert only_answer(hints(plugin, enabled=False)) is QueueingHint.QUEUE
    assert plugin.asked == []


@pytest.mark.parametrize("enabled", [True, False])
def test_a_plugin_without_retry_on_is_woken_by_everything(enabled: bool) -> None:
    found = hints(Silent(None, cast(Any, None)), enabled=enabled)
    assert names(found) == {event: ["Silent"] for event in EVERY_CHANGE}
    assert only_answer(found, ClusterEvent(PERSISTENT_VOLUME, ActionType.ALL)) is QueueingHint.QUEUE


def test_a_plugin_that_waits_for_nothing_is_not_asked() -> None:
    assert hints(Asked()) == {}


def test_the_wild_card_is_registered_as_it_is() -> None:
    everything = ClusterEvent(WILD_CARD, ActionType.ALL)
    assert names(hints(Asked(everything))) == {everything: ["Asked"]}


def test_who_waits_for_new_nodes_is_woken_when_their_taints_go() -> None:
    plugin = Asked(NODE_ADDED)
    found = hints(plugin)
    assert names(found) == {NODE_ADDED: ["Asked"], NODE_TAINTED: ["Asked"]}
    assert only_answer(found, NODE_TAINTED) is QueueingHint.QUEUE
    assert only_answer(found, NODE_ADDED) is QueueingHint.SKIP


@pytest.mark.parametrize(
    "retry_on",
    [
        (ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE),),
        (NODE_ADDED, NODE_TAINTED),
        (ClusterEvent(NODE, ActionType.UPDATE_NODE_LABEL),),
        (POD_DELETED,),
    ],
)
def test_taints_are_registered_only_where_they_are_missing(
    retry_on: tuple[ClusterEvent, ...],
) -> None:
    assert list(hints(Asked(*retry_on))) == list(retry_on)


class WordlessError(Exception):
    """Cannot be made a text."""

    def __str__(self) -> str:
        raise AttributeError("no attribute 'reason'")


@pytest.mark.parametrize(
    "fails_with",
    [
        ValueError("no"),
        asyncio.CancelledError("stopped"),  # as the task ended that the plugin runs in the background
        WordlessError(),
        PluginError("no"),
        None,
        True,
        "QueueSkip",
    ],
)
def test_a_failing_hint_lets_the_pod_be_tried_again(fails_with: object, caplog: pytest.LogCaptureFixture) -> None:
    found = hints(Failing(fails_with))
    with caplog.at_level(logging.ERROR):
        assert only_answer(found) is QueueingHint.QUEUE
        assert only_answer(found) is QueueingHint.QUEUE
    (record,) = caplog.records
    assert record.__dict__["plugin"] == "Asked"
    is_fault = isinstance(fails_with, BaseException) and not isinstance(fails_with, PluginError)
    assert bool(record.exc_info) == is_fault


def test_another_kind_of_failure_is_logged_as_well(caplog: pytest.LogCaptureFixture) -> None:
    plugin = Failing(ValueError("no"))
    found = hints(plugin)
    only_answer(found)
    plugin.fails_with = KeyError("no")
    only_answer(found)
    assert [record.__dict__["kind"] for record in caplog.records] == ["ValueError", "KeyError"]


@pytest.mark.parametrize(
    ("retry_on", "complaint"),
    [
        (NODE_ADDED, "retry_on must be a tuple of ClusterEvents, such as"),
        ("Node", "retry_on must be a tuple of ClusterEvents, such as"),
        (None, "retry_on must be a tuple of ClusterEvents, such as"),
        ((NODE_ADDED, "Node"), r"retry_on\[1\] must be a ClusterEvent; it is a str"),
        ((ClusterEvent(NODE, cast(Any, 1)),), r"retry_on\[0\].action must be one or more of ActionType; it is 1"),
        ((ClusterEvent(NODE, ActionType(0)),), r"retry_on\[0\].action must be one or more of ActionType"),
        (
            (ClusterEvent("Nodes", ActionType.ADD),),
            r"retry_on\[0\].resource must be one of Pod, Node, .* it is 'Nodes'",
        ),
        ((ClusterEvent("widgets.example.com", ActionType.ADD),), "plural.version.group as in widgets.v1.example.com"),
        ((ClusterEvent(cast(Any, None), ActionType.ADD),), "it is None"),
    ],
)
def test_a_retry_on_that_means_nothing_is_refused(retry_on: object, complaint: str) -> None:
    plugin = Asked()
    plugin.retry_on = cast(Any, retry_on)
    with pytest.raises(RetryOnError, match=complaint):
        hints(plugin)


@pytest.mark.parametrize("resource", ["widgets.v1.example.com", "configmaps.v1.", "jobs.v1.batch", "x.v2beta1.y.z"])
def test_any_kind_can_be_waited_for(resource: str) -> None:
    check_retry_on(Asked(ClusterEvent(resource, ActionType.ALL)), rules_of(31))


@pytest.mark.parametrize(
    ("resource", "first"),
    [(POD, 31), (ASSIGNED_POD, 32), (UNSCHEDULED_POD, 37), (TARGET_POD, 37)],
)
def test_a_kind_of_pods_is_refused_in_releases_whose_events_do_not_name_it(resource: str, first: int) -> None:
    plugin = Asked(NODE_ADDED, ClusterEvent(resource, ActionType.UPDATE))
    for minor in range(31, 38):
        if minor >= first:
            check_retry_on(plugin, rules_of(minor))
        else:
            with pytest.raises(RetryOnError) as raised:
                check_retry_on(plugin, rules_of(minor))
            assert str(raised.value) == (
                f"retry_on[1].resource: no event before 1.{first} is about {resource}, and 1.{minor} is followed: "
                "use Pod, which stands for all pods in every release"
            )


def test_plugins_of_every_point_that_rejects_are_asked() -> None:
    class OfPoints(Plugin):
        def __init__(self, name: str) -> None:
            super().__init__(None, cast(Any, None))
            self.name = name  # type: ignore[misc]

    def serving(*points: type[Plugin]) -> Plugin:
        made: type[Any] = type("Made", (OfPoints, *points), {})
        made.__abstractmethods__ = frozenset()
        plugin: Plugin = made("+".join(point.__name__ for point in points))
        return plugin

    gate, both, reserve = serving(PreEnqueue), serving(PreFilter, Filter), serving(Reserve)
    permit, pre_bind, score = serving(Permit), serving(PreBind), serving(Score)

    def at(*plugins: Plugin) -> Sequence[tuple[Plugin, int]]:
        return [(plugin, 1) for plugin in plugins]

    profile = Profile(
        "default-scheduler",
        {
            "preEnqueue": at(gate),
            "preFilter": at(both),
            "filter": at(both),
            "reserve": at(reserve),
            "permit": at(permit),
            "preBind": at(pre_bind),
            "score": at(score),
        },
    )
    assert profile.rejecting == (gate, both, reserve, permit, pre_bind)


@in_event_loop
async def test_hints_are_timed_with_their_outcome() -> None:
    clock = Clock()
    timed: list[tuple[str, str, str, float]] = []

    class Slow(Asked):
        def queueing_hint(self, event: ClusterEvent, pod: Pod, old: Any, new: Any) -> QueueingHint:
            clock.pass_seconds(2)
            return super().queueing_hint(event, pod, old, new)

    timing = HintTiming(clock, lambda *asked: timed.append(asked))
    event = ClusterEvent(POD, ActionType.DELETE, "AssignedPodDelete")
    plugins = [Slow(event, name="Slow"), Failing(RuntimeError("broken"))]
    for registered in queueing_hints(plugins, rules_of(32), timing=timing).values():
        for hint in registered:
            hint.ask(event, Pod(), None, None)
    assert timed == [
        ("Slow", "AssignedPodDelete", "QueueSkip", 2.0),
        ("Asked", "AssignedPodDelete", "Error", 0.0),
    ]


class Taking(Asked):
    """A plugin whose hints take some seconds."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        super().__init__(POD_DELETED)
        self.clock = clock
        self.seconds = seconds

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: Any, new: Any) -> QueueingHint:
        self.clock.pass_seconds(self.seconds)
        return super().queueing_hint(event, pod, old, new)


@in_event_loop
async def test_pods_are_tried_again_unasked_while_hints_take_too_long(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    plugin = Taking(clock, 0.4)
    timed: list[tuple[str, str, str, float]] = []
    timing = HintTiming(clock, lambda *asked: timed.append(asked))
    [hint] = queueing_hints([plugin], rules_of(32), timing=timing)[POD_DELETED]
    event = ClusterEvent(POD, ActionType.DELETE, "AssignedPodDelete")

    answers = [hint.ask(event, Pod(), Pod(), None) for _ in range(8)]
    assert answers == [QueueingHint.SKIP] * 3 + [QueueingHint.QUEUE] * 5
    assert len(plugin.asked) == len(timed) == 3
    await asyncio.sleep(0)
    [record] = caplog.records
    fields = {name: vars(record)[name] for name in ("plugin", "event", "pods", "seconds")}
    assert fields == {"plugin": "Asked", "event": "AssignedPodDelete", "pods": 5, "seconds": 1.2}

    assert hint.ask(event, Pod(), Pod(), None) is QueueingHint.SKIP
    await asyncio.sleep(0)
    assert len(caplog.records) == 1


@in_event_loop
async def test_hints_may_take_long_over_many_turns(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    timing = HintTiming(clock, lambda *_: None)
    [hint] = queueing_hints([Taking(clock, 0.003)], rules_of(32), timing=timing)[POD_DELETED]
    for _ in range(1000):
        assert hint.ask(POD_DELETED, Pod(), Pod(), None) is QueueingHint.SKIP
        await asyncio.sleep(0)
    assert not caplog.records

import pytest

from examples.plugins.conftest import Clock
from examples.plugins.quiet_starts import QuietStarts, QuietStartsArgs
from extender_service.plugin_api import CycleState
from extender_service.testing import Trial, make_node, make_pod


@pytest.fixture
def trial(clock: Clock) -> Trial:
    return Trial((make_node(name) for name in ("a", "b", "c")), clock=clock)


@pytest.fixture
def plugin(trial: Trial) -> QuietStarts:
    return QuietStarts(QuietStartsArgs(busy_seconds=30), trial.handle)


def reserve(plugin: QuietStarts, name: str, node_name: str) -> None:
    pod = make_pod(name)
    plugin.reserve(CycleState(pod), pod, node_name)


def unreserve(plugin: QuietStarts, name: str, node_name: str) -> None:
    pod = make_pod(name)
    plugin.unreserve(CycleState(pod), pod, node_name)


def test_the_next_pod_rather_goes_where_fewer_are_starting(trial: Trial, plugin: QuietStarts) -> None:
    assert trial.scores(plugin, make_pod("next")) == {}

    for name, node_name in ("1", "a"), ("2", "a"), ("3", "b"):
        reserve(plugin, name, node_name)

    assert trial.scores(plugin, make_pod("next")) == {"a": 0, "b": 50, "c": 100}


def test_a_start_is_over_after_a_while(trial: Trial, plugin: QuietStarts, clock: Clock) -> None:
    reserve(plugin, "1", "a")
    clock.now += 20
    reserve(plugin, "2", "b")
    clock.now += 10
    assert trial.scores(plugin, make_pod("next")) == {"a": 100, "b": 0, "c": 100}
    clock.now += 20
    assert trial.scores(plugin, make_pod("next")) == {}


def test_a_placement_that_came_to_nothing_does_not_count(trial: Trial, plugin: QuietStarts) -> None:
    unreserve(plugin, "1", "a")  # before it was reserved
    reserve(plugin, "1", "a")
    unreserve(plugin, "1", "a")
    unreserve(plugin, "1", "a")  # and once more
    assert trial.scores(plugin, make_pod("next")) == {}


def test_a_pod_that_is_given_another_node_starts_there_only(trial: Trial, plugin: QuietStarts) -> None:
    reserve(plugin, "1", "a")
    reserve(plugin, "1", "b")
    assert trial.scores(plugin, make_pod("next")) == {"a": 100, "b": 0, "c": 100}

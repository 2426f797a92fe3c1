import asyncio
import logging
from typing import Any

import pytest

from extender_service.extender.modes import Mode
from extender_service.extender.reporting.decision_log import log_decision
from extender_service.extender.reporting.observation import Observation
from extender_service.kube.types.core import Taint
from tests.support.clusters.extender_world import ExtenderWorld
from tests.support.objects import make_node, make_pod

NAME = "extender_service.extender.reporting.decision_log"


def logged(
    caplog: pytest.LogCaptureFixture, observation: Observation, level: int = logging.INFO
) -> tuple[int, str, dict[str, Any]]:
    """The level, message and fields of the one line that an observation makes."""
    caplog.clear()
    with caplog.at_level(level, NAME):
        log_decision(observation)
    (record,) = caplog.records
    plain = logging.makeLogRecord({})
    extra = {key: value for key, value in vars(record).items() if key not in vars(plain) and key != "message"}
    return record.levelno, record.getMessage(), extra


def test_a_decision_is_one_line_at_info(caplog: pytest.LogCaptureFixture) -> None:
    observation = Observation(verb="filter", pod="default/web-1", seconds=0.0012345, asked=5, passed=2)
    assert logged(caplog, observation) == (
        logging.INFO,
        "decided",
        {"verb": "filter", "pod": "default/web-1", "asked": 5, "passed": 2, "ms": 1.234},
    )


NODES = (
    make_node("small", {"cpu": "1", "memory": "4Gi", "pods": "10"}),
    make_node("other-small", {"cpu": "1", "memory": "1Gi", "pods": "10"}),
    make_node("tainted", taints=[Taint("gpu", "yes", "NoSchedule")]),
    make_node("free", {"cpu": "8", "memory": "32Gi", "pods": "10"}),
    make_node("fuller", {"cpu": "4", "memory": "32Gi", "pods": "10"}),
)
BIG = make_pod("web", requests={"cpu": "2", "memory": "2Gi"})


def decided(mode: Mode, *names: str) -> Observation:
    """What is observed of a filter call about a pod that fits on two of the nodes."""
    world = ExtenderWorld(*NODES, mode=mode)
    asyncio.run(world.filter(BIG, names))
    (observation,) = world.observations
    return observation


@pytest.mark.parametrize("mode", ["beside", "replace"])
def test_why_nodes_were_refused_and_by_which_plugin_is_in_the_line(
    caplog: pytest.LogCaptureFixture, mode: Mode
) -> None:
    observation = decided(mode, "small", "other-small", "tainted", "free", "fuller", "new")
    _, _, fields = logged(caplog, observation)
    assert (fields["asked"], fields["passed"]) == (6, 2)
    assert fields["reasons"] == (
        "2/6 nodes are available: 1 Insufficient memory, 1 node(s) had untolerated taint {gpu: yes}, "
        "1 node(s) not known to extender-service yet, 2 Insufficient cpu."
    )
    assert fields["refused_by"] == "1 TaintToleration, 2 NodeResourcesFit"
    assert "scores" not in fields


def test_where_no_node_was_refused_there_is_no_reason(caplog: pytest.LogCaptureFixture) -> None:
    _, _, fields = logged(caplog, decided("replace", "free", "fuller"))
    assert not {"reasons", "refused_by"} & fields.keys()


def test_at_debug_the_line_has_the_scores_of_the_best_nodes_by_plugin(caplog: pytest.LogCaptureFixture) -> None:
    observation = decided("replace", "small", "free", "fuller")
    _, _, fields = logged(caplog, observation, logging.DEBUG)
    best, other = fields["scores"].split("; ")
    assert best.startswith("free ")
    assert other.startswith("fuller ")
    for node in (best, other):
        total, by_plugin = node.partition(" ")[2].split(": ")
        contributions = dict(each.rsplit(" ", 1) for each in by_plugin.split(", "))
        assert sum(map(int, contributions.values())) == int(total)
        assert {"NodeResourcesFit", "NodeResourcesBalancedAllocation"} <= contributions.keys()
    assert observation.node_name == "free"


def test_at_debug_the_line_about_prioritize_has_the_scores_beside_kube_scheduler_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = ExtenderWorld(*NODES, mode="beside")
    asyncio.run(world.call("prioritize", {"Pod": BIG, "NodeNames": ["small", "new", "fuller", "free"]}))
    (observation,) = world.observations
    assert "scores" not in logged(caplog, observation)[2]
    _, _, fields = logged(caplog, observation, logging.DEBUG)
    assert (fields["asked"], fields["passed"]) == (4, 4)
    assert not {"reasons", "refused_by"} & fields.keys()
    best = fields["scores"].split("; ")
    assert [node.partition(" ")[0] for node in best] == ["free", "fuller", "small"]
    total, by_plugin = best[0].partition(" ")[2].split(": ")
    # As the plugins have them, not scaled to 10.
    assert int(total) == sum(int(each.rsplit(" ", 1)[1]) for each in by_plugin.split(", ")) > 10


def test_where_prioritize_scores_nothing_the_line_has_no_scores(caplog: pytest.LogCaptureFixture) -> None:
    without_nodes, without_plugins = ExtenderWorld(mode="beside"), ExtenderWorld(NODES[0], plugins={})
    for world in (without_nodes, without_plugins):
        asyncio.run(world.call("prioritize", {"Pod": BIG, "NodeNames": ["small"]}))
        (observation,) = world.observations
        assert "scores" not in logged(caplog, observation, logging.DEBUG)[2]


def test_beside_filter_needs_no_score_at_any_level(caplog: pytest.LogCaptureFixture) -> None:
    assert "scores" not in logged(caplog, decided("beside", "free", "fuller"), logging.DEBUG)[2]


def test_nothing_is_explained_where_nothing_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    observation = decided("replace", "small", "free")
    monkeypatch.setattr("extender_service.extender.reporting.decision_log.explained", None)
    with caplog.at_level(logging.WARNING, NAME):
        log_decision(observation)
    assert not caplog.records


def test_a_chosen_node_and_a_second_look_are_told(caplog: pytest.LogCaptureFixture) -> None:
    observation = Observation(
        verb="filter", pod="a/b", seconds=0.05, asked=5, passed=1, node_name="node-3", looked_again=True
    )
    assert logged(caplog, observation)[2] == {
        "verb": "filter",
        "pod": "a/b",
        "asked": 5,
        "passed": 1,
        "node": "node-3",
        "looked_again": True,
        "ms": 50.0,
    }


def test_a_decision_made_ahead_is_told(caplog: pytest.LogCaptureFixture) -> None:
    observation = Observation(verb="filter", pod="a/b", seconds=0.0004, asked=5, passed=1, node_name="n", ahead=True)
    assert logged(caplog, observation)[2]["ahead"] is True


def test_a_pod_that_fits_nowhere_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    observation = Observation(verb="filter", pod="a/b", seconds=0, asked=1)
    assert logged(caplog, observation)[:2] == (logging.INFO, "decided")


def test_a_failed_call_is_a_warning_with_its_error(caplog: pytest.LogCaptureFixture) -> None:
    observation = Observation(verb="bind", pod="", seconds=0.002, error="PodName is missing")
    assert logged(caplog, observation) == (
        logging.WARNING,
        "failed",
        {"verb": "bind", "error": "PodName is missing", "ms": 2.0},
    )


def test_decisions_can_be_silenced(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, NAME):
        log_decision(Observation(verb="filter", pod="a/b", seconds=0))
        log_decision(Observation(verb="filter", pod="a/b", seconds=0, error="no"))
    assert not caplog.records

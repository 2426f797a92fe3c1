import logging
from typing import Any

import numpy as np
import pytest

from extender_service.framework.filtering import PreFilterOutcome
from extender_service.framework.profile import Profile
from extender_service.framework.profiles import Profiles
from extender_service.framework.status import unschedulable
from extender_service.framework.verdicts import Verdicts
from extender_service.scheduler.choice_log import Explain, log_choice, logging_choices
from extender_service.scheduling.decision import Decision
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.explanation import why_chosen
from extender_service.scheduling.question import Question
from tests.support.objects import make_pod
from tests.support.stub_plugins import Stub, make_handle, make_profile, stub_cluster

NAME = "extender_service.scheduler.choice_log"
FULL = unschedulable("Insufficient cpu")
SCORES = {"a": 5, "b": 70, "c": 20, "d": 10, "e": 90}


def decided(*asked: str) -> Decision:
    """A decision about nodes of which the last is full, or about the one that is nominated."""
    cluster = stub_cluster(*SCORES)
    plugins = Stub("Rejects", rejects={"e": FULL}), Stub("Scores", scores=SCORES)
    engine = Engine(cluster, Profiles({"default-scheduler": make_profile(*plugins)}), make_handle(cluster).pods)
    nodes = engine.nodes.named_once(asked) if asked else engine.nodes.all()
    return engine.decide(Question(make_pod("web"), nodes, is_nominated=bool(asked)))


def logged(caplog: pytest.LogCaptureFixture) -> dict[str, Any]:
    """The fields of the only line."""
    [record] = caplog.records
    assert (record.levelno, record.getMessage(), record.created) == (logging.DEBUG, "chose a node", 5.0)
    plain = vars(logging.makeLogRecord({})).keys() | {"message"}
    return {name: value for name, value in vars(record).items() if name not in plain}


def test_the_line_says_what_the_best_nodes_scored_and_why_others_are_out(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, NAME):
        log_choice(decided(), "b", 5.0)
    fields = logged(caplog)
    nodes = fields.pop("scores").split("; ")
    assert [node.partition(":")[0] for node in nodes] == ["b 70", "c 20", "d 10"]
    assert all("Scores " in node.partition(": ")[2] for node in nodes)
    assert fields == {
        "pod": "default/web",
        "node": "b",
        "asked": 5,
        "passed": 4,
        "reasons": "4/5 nodes are available: 1 Insufficient cpu.",
        "refused_by": "1 Rejects",
    }


def test_of_a_nominated_node_the_line_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, NAME):
        log_choice(decided("c"), "c", 5.0)
    assert logged(caplog) == {"pod": "default/web", "node": "c", "nominated": True, "asked": 1, "passed": 1}


def test_of_sampled_nodes_those_that_were_not_looked_at_count_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    cluster = stub_cluster(*SCORES)
    plugins = Stub("Rejects", rejects={"b": FULL, "e": FULL}), Stub("Scores", scores=SCORES)
    engine = Engine(cluster, Profiles({"default-scheduler": make_profile(*plugins)}), make_handle(cluster).pods)

    def look_at_two(_profile: Profile, verdicts: Verdicts, _pre_filter: PreFilterOutcome) -> None:
        verdicts.keep(np.isin(np.arange(len(verdicts.passing)), engine.nodes.named(["a", "b"]).positions))

    question = Question(make_pod("web"), engine.nodes.all(), sample_nodes=look_at_two)
    decision = engine.decide(question)
    with caplog.at_level(logging.DEBUG, NAME):
        log_choice(decision, "a", 5.0)
    fields = logged(caplog)
    assert (fields["asked"], fields["looked_at"], fields["passed"]) == (5, 2, 1)
    assert fields["reasons"] == "1/2 nodes are available: 1 Insufficient cpu."
    said = "1/2 nodes are available: 1 Insufficient cpu. 3 more were not looked at."
    assert why_chosen(decision) == said


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
def test_choices_are_logged_at_debug_and_passed_on_at_every_level(caplog: pytest.LogCaptureFixture, level: int) -> None:
    passed_on: list[str] = []

    def explain(decision: Decision, node_name: str) -> None:
        passed_on.append(node_name)

    with caplog.at_level(level, NAME):
        given: list[Explain | None] = [None, explain]
        for each in given:
            made = logging_choices(each, lambda: 5.0)
            assert (made is None) == (level == logging.INFO and each is None)
            if made is not None:
                made(decided(), "b")
    assert passed_on == ["b"]
    assert len(caplog.records) == (2 if level == logging.DEBUG else 0)

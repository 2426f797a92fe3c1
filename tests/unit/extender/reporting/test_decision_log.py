import logging
from typing import Any

import pytest

from extender_service.extender.reporting.decision_log import availability, log_decision
from extender_service.extender.reporting.observation import Observation

NAME = "extender_service.extender.reporting.decision_log"


def logged(caplog: pytest.LogCaptureFixture, observation: Observation) -> tuple[int, str, dict[str, Any]]:
    """The level, message and fields of the one line that an observation makes."""
    with caplog.at_level(logging.INFO, NAME):
        log_decision(observation)
    (record,) = caplog.records
    plain = logging.makeLogRecord({})
    extra = {key: value for key, value in vars(record).items() if key not in vars(plain) and key != "message"}
    return record.levelno, record.getMessage(), extra


def test_reasons_are_counted_and_sorted_as_kube_scheduler_words_them() -> None:
    reasons = {
        "node(s) had untolerated taint {dedicated: gpu}": 3,
        "Insufficient memory": 1,
        "Insufficient cpu": 10,
        "Too many pods": 2,
    }
    assert availability(0, 14, reasons) == (
        "0/14 nodes are available: 1 Insufficient memory, 10 Insufficient cpu, 2 Too many pods, "
        "3 node(s) had untolerated taint {dedicated: gpu}."
    )


def test_a_decision_is_one_line_at_info(caplog: pytest.LogCaptureFixture) -> None:
    observation = Observation(
        verb="filter",
        pod="default/web-1",
        seconds=0.0012345,
        asked=5,
        passed=2,
        reasons={"Insufficient cpu": 3},
    )
    assert logged(caplog, observation) == (
        logging.INFO,
        "decided",
        {
            "verb": "filter",
            "pod": "default/web-1",
            "asked": 5,
            "passed": 2,
            "reasons": "2/5 nodes are available: 3 Insufficient cpu.",
            "ms": 1.234,
        },
    )


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
    observation = Observation(verb="filter", pod="a/b", seconds=0, asked=1, reasons={"Too many pods": 1})
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

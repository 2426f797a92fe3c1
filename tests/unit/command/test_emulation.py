import logging
from argparse import ArgumentParser
from typing import Any

import pytest

from extender_service.command.emulation import EmulationOptions, add_emulation_options, emulation_options
from extender_service.command.start_error import StartError


def given(*arguments: str) -> EmulationOptions:
    parser = ArgumentParser()

    def add(*names: str, **facts: Any) -> None:
        parser.add_argument(*names, **facts)

    add_emulation_options(add)
    return emulation_options(parser.parse_args(arguments))


def test_the_release_decides_which_rules_hold() -> None:
    assert given().rules().release == "1.37"
    assert given("--emulated-version=1.34").rules().release == "1.34"
    assert given("--emulated-version=1.34", "--emulated-version=kube=1.36").rules().release == "1.36"


def test_without_an_option_the_release_is_that_of_the_api_server_as_far_as_it_can_be_followed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert given().rules(34).release == "1.34"
    assert given("--emulated-version=1.33").rules(34).release == "1.33"
    assert not caplog.records
    assert [given().rules(minor).release for minor in (30, 38)] == ["1.31", "1.37"]
    assert [vars(record)["server"] for record in caplog.records] == ["1.30", "1.38"]


def test_an_error_names_the_release_unless_the_user_has_chosen_it() -> None:
    with pytest.raises(StartError) as error, given().naming_release("1.34"):
        raise StartError("--config: wrong")
    problem, explanation = str(error.value).splitlines()
    assert problem == "--config: wrong"
    assert explanation.startswith("kube-scheduler 1.34, whose rules decide here unless --emulated-version says")
    chosen = given("--emulated-version=1.34")
    with pytest.raises(StartError, match=r"^--config: wrong\Z"), chosen.naming_release("1.34"):
        raise StartError("--config: wrong")


def test_a_later_value_for_a_gate_overrides_an_earlier_one() -> None:
    assert given("--feature-gates=A=true,B=true", "--feature-gates=B=false").gates == {"A": True, "B": False}


def test_gates_are_those_of_the_release() -> None:
    hints_on = given("--emulated-version=1.31", "--feature-gates=SchedulerQueueingHints=true")
    assert hints_on.rules().queueing_hints
    options = given("--feature-gates=SchedulerQueueingHints=false", "--emulated-version=1.34")
    with pytest.raises(StartError, match="--feature-gates: cannot set feature gate SchedulerQueueingHints to false"):
        options.rules()
    with pytest.raises(StartError, match=r"--feature-gates: unrecognized feature gate: X$"):
        given("--feature-gates=X=true").rules()


def test_gates_without_effect_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        given("--emulated-version=1.31", "--feature-gates=NodeSwap=false,SchedulerQueueingHints=true").rules()
    [record] = caplog.records
    assert (record.message, vars(record)["option"]) == ("an option has no effect", "--feature-gates NodeSwap")


def test_gates_by_which_only_kube_scheduler_decides_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        given("--emulated-version=1.32", "--feature-gates=InPlacePodVerticalScaling=true").rules()
    [record] = caplog.records
    assert record.message == "a feature gate by which kube-scheduler decides is not followed: its default counts"
    assert (vars(record)["gate"], vars(record)["emulated_version"]) == ("InPlacePodVerticalScaling", "1.32")


def test_gates_that_will_be_removed_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        given("--emulated-version=1.34", "--feature-gates=SchedulerQueueingHints=true").rules()
    [record] = caplog.records
    assert record.message.startswith("a feature gate will be removed in a later release, which then refuses it")
    assert (vars(record)["gate"], vars(record)["stage"]) == ("SchedulerQueueingHints", "GA")


def test_a_gate_that_is_followed_in_part_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        given("--emulated-version=1.37", "--feature-gates=GenericWorkload=true").rules()
    [record] = caplog.records
    assert record.message == "a feature gate is followed in part: pods of groups are neither judged nor preempted"
    assert (vars(record)["gate"], vars(record)["emulated_version"]) == ("GenericWorkload", "1.37")


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        ("--emulated-version=1.30", "argument --emulated-version: 1.30 is not within 1.31 and 1.37"),
        ("--feature-gates=X", "argument --feature-gates: missing bool value for X: write X=true or X=false"),
    ],
)
def test_text_that_cannot_be_read_is_wrong_usage(
    argument: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        given(argument)
    assert problem in capsys.readouterr().err

import argparse
import logging
import os

import pytest

from extender_service.command import cli
from extender_service.command.option_parser import ENVIRONMENT_PREFIX
from extender_service.command.unused_options import given_among, given_besides, log_unused


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(ENVIRONMENT_PREFIX):
            monkeypatch.delenv(name)


def parsed(*arguments: str) -> argparse.Namespace:
    return cli.parser().parse_args(["schedule", *arguments])


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ([], ()),
        (["--output=json"], ("--output",)),
        (["--output", "json"], ("--output",)),
        (["--output", "text"], ("--output",)),  # the default
        (["-o", "json"], ("--output",)),
        (["-ojson"], ("--output",)),
        (["-v4"], ("--log-level",)),
        (["--v=4"], ("--log-level",)),
        (["--leader-elect"], ("--leader-elect",)),
        (["--master", "x=--output", "--leader-elect=false"], ("--leader-elect", "--master")),
        (["--logging-format=text"], ("--logging-format",)),
    ],
)
def test_an_option_is_given_in_any_way_of_writing_it(arguments: list[str], given: tuple[str, ...]) -> None:
    assert given_besides(parsed(*arguments), ()) == given


def test_the_environment_gives_options_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXTENDER_SERVICE_MASTER", "https://127.0.0.1")
    monkeypatch.setenv("EXTENDER_SERVICE_CERT_DIR", "")  # which says nothing
    assert given_besides(parsed("-o", "text"), ()) == ("--master", "--output")


def test_some_or_all_others_are_asked_for() -> None:
    options = parsed("--kubeconfig=file", "--master=https://127.0.0.1", "--leader-elect")
    assert given_among(options, ["--output", "--master", "--leader-elect"]) == ("--leader-elect", "--master")
    assert given_besides(options, ["--output", "--master", "--leader-elect"]) == ("--kubeconfig",)


def test_each_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    log_unused(["--master", "--output"])
    assert [(record.levelno, record.message, vars(record)["option"]) for record in caplog.records] == [
        (logging.WARNING, "an option has no effect", "--master"),
        (logging.WARNING, "an option has no effect", "--output"),
    ]

import asyncio
import logging

import pytest

from extender_service.framework.plugin_errors import NoTimeLeftError, PluginError, logged_failure
from extender_service.kube.parsing.quantities import QuantityError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("oops"), "ValueError: oops"),
        (asyncio.CancelledError("stopped"), "CancelledError: stopped"),  # as the task ended that the plugin looked at
    ],
)
def test_a_fault_of_a_plugin_has_its_type_and_is_logged_with_its_traceback(
    error: BaseException, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert str(logged_failure("running A", error)) == f"running A: {text}"
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert record.exc_info[1] is error
    assert vars(record)["doing"] == "running A"


@pytest.mark.parametrize("error", [PluginError("as told"), NoTimeLeftError(), QuantityError("as told")])
def test_what_is_no_fault_of_a_plugin_has_its_text_alone_and_no_line_in_the_log(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    assert str(logged_failure("running A", error)) == f"running A: {error}"
    assert caplog.records == []


def test_an_error_that_has_no_text_is_told_by_its_type() -> None:
    class WordlessError(Exception):
        def __str__(self) -> str:
            raise AttributeError("no attribute 'reason'")

    assert str(logged_failure("running A", WordlessError())) == "running A: WordlessError: <exception str() failed>"

"""Commands configure logging for the whole process: what tests of them change is as before for the next test."""

import logging
from collections.abc import Iterator

import pytest

from extender_service.observability.logs import _CHATTY_LOGGERS


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    loggers = [root, *map(logging.getLogger, _CHATTY_LOGGERS)]
    handlers, levels = root.handlers.copy(), [logger.level for logger in loggers]
    yield
    root.handlers = handlers
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
    logging.captureWarnings(capture=False)

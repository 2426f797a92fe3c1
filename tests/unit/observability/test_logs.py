import io
import json
import logging
import re
import shlex
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import IntEnum, StrEnum

import pytest
import uvicorn
from hypothesis import example, given
from hypothesis import strategies as st

from extender_service.observability.logs import (
    JSONFormatter,
    LogFormat,
    TextFormatter,
    configure_logging,
    log_fields,
    parse_log_level,
)

log = logging.getLogger("some.module")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("", "httpcore", "httpx", "uvicorn.access")]
    levels = [logger.level for logger in loggers]
    root = logging.getLogger()
    handlers, root.handlers = root.handlers, []
    yield
    root.handlers = handlers
    logging.captureWarnings(capture=False)
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def configured(log_format: LogFormat, level: int = logging.INFO) -> io.StringIO:
    stream = io.StringIO()
    configure_logging(level, log_format, stream)
    return stream


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("debug", logging.DEBUG),
        ("info", logging.INFO),
        ("Warning", logging.WARNING),
        ("error", logging.ERROR),
        ("0", logging.INFO),
        ("2", logging.INFO),
        ("3", logging.INFO),
        ("4", logging.DEBUG),
        ("10", logging.DEBUG),
    ],
)
def test_a_level_is_a_name_or_a_number_as_kube_scheduler_has_it(text: str, level: int) -> None:
    assert parse_log_level(text) == level


@pytest.mark.parametrize("text", ["", "loud", "-1", "2.5", "²"])
def test_other_levels_are_refused_with_those_that_would_be_right(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a log level: use debug, info, warning, error, or a number"):
        parse_log_level(text)


def test_a_text_line_is_logfmt() -> None:
    stream = configured("text")
    log.info("listed %d pods", 3, extra={"resource": "pods", "why": "no bookmark", "again": True, "none": None})
    time, rest = stream.getvalue().split(" ", 1)
    assert re.fullmatch(r"time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time)
    assert rest == (
        'level=info logger=some.module msg="listed 3 pods" resource=pods why="no bookmark" again=true none=null\n'
    )


def test_a_json_line_has_the_same_fields_typed() -> None:
    stream = configured("json")
    log.warning("listed %d pods", 3, extra={"resource": "pods", "seconds": 0.5, "names": ["a"], "key": object})
    (line,) = stream.getvalue().splitlines()
    fields = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", fields.pop("time"))
    assert fields == {
        "level": "warning",
        "logger": "some.module",
        "msg": "listed 3 pods",
        "resource": "pods",
        "seconds": 0.5,
        "names": ["a"],
        "key": "<class 'object'>",
    }


def test_a_line_of_fields_has_them_and_its_time() -> None:
    stream = configured("text")
    log_fields(log, logging.INFO, "bound 100% of it", {"pod": "default/web-0", "node": "n 1"}, at=1_700_000_000.25)
    origin = "time=2023-11-14T22:13:20.250Z level=info logger=some.module"
    assert stream.getvalue() == f'{origin} msg="bound 100% of it" pod=default/web-0 node="n 1"\n'


def test_a_line_of_fields_is_left_out_below_the_level() -> None:
    stream = configured("text", logging.WARNING)
    log_fields(log, logging.INFO, "bound a pod", {"pod": "default/web-0"})
    assert stream.getvalue() == ""


@pytest.mark.parametrize("formatter", [TextFormatter(), JSONFormatter()])
def test_times_are_utc_with_milliseconds(formatter: logging.Formatter) -> None:
    record = logging.makeLogRecord({"created": 1_700_000_000.0})
    assert "2023-11-14T22:13:20.000Z" in formatter.format(record)


@given(st.floats(-1e9, 4e9))
@example(1_700_000_000.9999997)
@example(-0.0000001)
def test_a_time_is_cut_to_milliseconds(created: float) -> None:
    time = datetime.fromtimestamp(created, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
    line = TextFormatter().format(logging.makeLogRecord({"created": created}))
    assert line.startswith(f"time={time}Z ")


class Level(IntEnum):
    HIGH = 3


class Colour(StrEnum):
    RED = "dark red"


values = st.one_of(
    st.text(),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.sampled_from([Level.HIGH, Colour.RED]),
    st.lists(st.text()),
)


@given(values, values)
def test_a_json_line_is_as_the_json_module_writes_it(one: object, other: object) -> None:
    record = logging.makeLogRecord({"created": 0.5, "levelname": "INFO", "name": "a.b", "msg": "done"})
    vars(record).update(one=one, other=other)
    fields: dict[str, object] = {"time": "1970-01-01T00:00:00.500Z", "level": "info", "logger": "a.b", "msg": "done"}
    fields |= {"one": one, "other": other}
    line = json.dumps(fields, ensure_ascii=False)
    as_ascii = json.dumps(fields).replace("\x7f", "\\u007f")
    assert JSONFormatter().format(record) == (line if line.isprintable() else as_ascii)


@given(st.one_of(st.integers(), st.floats(), st.booleans(), st.none(), st.just(Level.HIGH)))
def test_a_plain_value_is_the_same_in_text_and_json(value: object) -> None:
    line = TextFormatter().format(logging.makeLogRecord({"value": value}))
    assert line.endswith(f" value={json.dumps(value)}")


@given(st.text(), st.text())
def test_no_value_leaves_its_line_or_its_field(message: str, value: str) -> None:
    record = logging.makeLogRecord({"msg": message, "value": value})
    text, as_json = TextFormatter().format(record), JSONFormatter().format(record)
    assert text.isprintable()
    assert as_json.isprintable()
    fields = json.loads(as_json)
    assert (fields["msg"], fields["value"]) == (message, value)
    parsed = dict(re.findall(r'(\S+?)=("(?:[^"\\]|\\.)*"|[^" ]*)', text))
    assert list(parsed) == ["time", "level", "logger", "msg", "value"]
    assert [json.loads(parsed[key]) if parsed[key][:1] == '"' else parsed[key] for key in ("msg", "value")] == [
        message,
        value,
    ]


def test_letters_of_other_scripts_stay_readable() -> None:
    stream = configured("text")
    log.info("näher", extra={"what": "größer als"})
    assert 'msg=näher what="größer als"' in stream.getvalue()


def test_an_exception_is_one_field_of_the_line() -> None:
    for log_format in ("text", "json"):
        stream = configured("json" if log_format == "json" else "text")
        try:
            raise KeyError("gone")
        except KeyError:
            log.exception("a call failed", extra={"verb": "filter"})
        (line,) = stream.getvalue().splitlines()
        assert "Traceback (most recent call last):\\n" in line
        assert "KeyError: 'gone'" in line


def test_a_stack_is_one_field_of_the_line() -> None:
    stream = configured("json")
    log.info("here", stack_info=True)
    (line,) = stream.getvalue().splitlines()
    assert "test_a_stack_is_one_field_of_the_line" in json.loads(line)["stack"]


def test_a_field_cannot_pass_for_one_that_every_line_has() -> None:
    stream = configured("json")
    log.info("hello", extra={"level": "error"})
    fields = json.loads(stream.getvalue())
    assert (fields["level"], fields["level_"]) == ("info", "error")


def test_nothing_below_the_level_is_written() -> None:
    stream = configured("text", logging.WARNING)
    log.info("quiet")
    log.warning("loud")
    assert shlex.split(stream.getvalue())[3] == "msg=loud"


def test_configuring_again_replaces_what_was() -> None:
    first = configured("text")
    second = configured("json")
    log.info("hello")
    assert first.getvalue() == ""
    assert json.loads(second.getvalue())["msg"] == "hello"


def test_warnings_are_lines_too() -> None:
    stream = configured("json")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=False)
        logging.captureWarnings(capture=True)
        warnings.warn("old plugin", stacklevel=1)
    (line,) = stream.getvalue().splitlines()
    assert "UserWarning: old plugin" in json.loads(line)["msg"]


def test_uvicorn_writes_the_same_lines_and_none_per_request() -> None:
    stream = configured("json", logging.DEBUG)
    uvicorn.Config("none:app", log_config=None, access_log=False)
    logging.getLogger("uvicorn.error").info("Started [%d]", 7, extra={"color_message": "\x1b[36mStarted\x1b[0m"})
    logging.getLogger("uvicorn.access").info("GET /readyz")
    (line,) = stream.getvalue().splitlines()
    fields = json.loads(line)
    del fields["time"]
    assert fields == {"level": "info", "logger": "uvicorn.error", "msg": "Started [7]"}


def test_requests_to_the_api_server_are_not_logged_by_httpx() -> None:
    stream = configured("text", logging.DEBUG)
    logging.getLogger("httpx").info("HTTP Request: GET https://127.0.0.1:6443/api/v1/pods")
    logging.getLogger("httpcore.http11").debug("send_request_headers.started")
    assert stream.getvalue() == ""

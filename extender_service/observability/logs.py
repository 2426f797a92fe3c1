"""Logs: one line per record on standard error, as logfmt text or as JSON.

No value can break out of its line or its field: values are quoted, and characters that are not printable are escaped.
"""

import json
import logging
import math
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from json.encoder import encode_basestring
from typing import Literal, TextIO

from extender_service.caches import cached

LogFormat = Literal["text", "json"]

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
# From this verbosity on, Kubernetes' components log each step rather than only its result (klog's V(4)).
_DEBUG_VERBOSITY = 4

# These libraries log at least a line per HTTP request at info or debug; this service logs its calls itself.
_CHATTY_LOGGERS = ("httpcore", "httpx", "uvicorn.access")

# Attributes that every record has, without a thread and a process, which no line shows. The others are from `extra` or
# other formatters; uvicorn adds its message a second time, with terminal colours.
_ATTRIBUTES = vars(logging.makeLogRecord({"thread": None, "threadName": None, "process": None, "processName": None}))
_STANDARD_ATTRIBUTES = len(_ATTRIBUTES)
_NO_EXTRA = {*_ATTRIBUTES, "asctime", "message", "color_message"}
_FIRST_FIELDS = {"time", "level", "logger", "msg"}

_SCALARS = (bool, int, float)

_encode = json.JSONEncoder(ensure_ascii=False, default=str).encode
_encode_as_ascii = json.JSONEncoder(default=str).encode


def parse_log_level(text: str) -> int:
    """Return the level of the logging module: by name, or by number as kube-scheduler's -v has it.

    Numbers up to 3 are info, from 4 on debug. Raises ValueError for anything else.
    """
    level = _LEVELS.get(text.lower())
    if level is not None:
        return level
    if text.isascii() and text.isdigit():
        return logging.DEBUG if int(text) >= _DEBUG_VERBOSITY else logging.INFO
    raise ValueError(f"{text!r} is not a log level: use {', '.join(_LEVELS)}, or a number as for kube-scheduler's -v")


def configure_logging(level: int, log_format: LogFormat, stream: TextIO | None = None) -> None:
    """Send the records of all loggers from `level` up, and Python's warnings, to `stream` (default: standard error).

    That includes uvicorn's records if it runs with `log_config=None`; run it with `access_log=False`, too.
    """
    # No line has these, and collecting them takes time (see "Optimization" in the documentation of logging).
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JSONFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    for name in _CHATTY_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)


def log_fields(
    logger: logging.Logger, level: int, message: str, fields: Mapping[str, object], at: float | None = None
) -> None:
    """Log a line with these fields, for lines that come for each pod or call.

    `at` is the time, in seconds since 1970; now if it is None. `Logger.log` takes longer: it searches the stack for the
    line of code that called it, which no line of the log has.
    """
    if not logger.isEnabledFor(level):
        return
    if at is None:
        record = logging.LogRecord(logger.name, level, "", 0, message, (), None)
    else:
        record = _Line(logger.name, level, message, at)
    vars(record).update(fields)
    logger.handle(record)


class _Line(logging.LogRecord):
    """A record with just what a line has; the constructor of LogRecord takes several times as long."""

    def __init__(self, name: str, level: int, message: str, created: float) -> None:
        attributes = vars(self)
        attributes.update(_ATTRIBUTES)
        attributes["name"], attributes["msg"], attributes["created"] = name, message, created
        attributes["levelno"], attributes["levelname"] = level, logging.getLevelName(level)
        attributes["msecs"] = created % 1 * 1000


class TextFormatter(logging.Formatter):
    """Writes logfmt: `time=… level=info logger=… msg="…"`, then the record's `extra` as key=value."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        first = f"time={_time(record.created)} {_text_origin(record.levelname, record.name)} msg="
        extra = [_text_key(key) + _text(value) for key, value in _extra(record).items()]
        return first + _text(record.getMessage()) + "".join(extra)


class JSONFormatter(logging.Formatter):
    """Writes an object with the members time, level, logger and msg, then the record's `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        first = f'{{"time": "{_time(record.created)}", {_json_origin(record.levelname, record.name)}, "msg": '
        extra = [_json_key(key) + _json(value) for key, value in _extra(record).items()]
        line = first + _json(record.getMessage()) + "".join(extra) + "}"
        return line if line.isprintable() else _escaped(json.loads(line))


def _extra(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = {}
    if record.exc_info:
        fields["exception"] = logging.Formatter().formatException(record.exc_info)
    if record.stack_info:
        fields["stack"] = record.stack_info
    own = {
        key: value for key, value in islice(vars(record).items(), _STANDARD_ATTRIBUTES, None) if key not in _NO_EXTRA
    }
    if not fields and _FIRST_FIELDS.isdisjoint(own):
        return own
    for key, value in own.items():
        fields[f"{key}_" if key in _FIRST_FIELDS or key in fields else key] = value
    return fields


def _time(timestamp: float) -> str:
    """Format seconds since 1970 as RFC 3339 in UTC, to the millisecond."""
    second = int(timestamp)
    microseconds = round((timestamp - second) * 1e6)
    if not 0 <= microseconds < 1_000_000:
        carry, microseconds = divmod(microseconds, 1_000_000)
        second += carry
    return f"{_second(second)}.{microseconds // 1000:03}Z"


@cached("log times", most_entries=4, most_entry_bytes=500, most_size=None)
def _second(timestamp: int) -> str:
    return datetime.fromtimestamp(timestamp, UTC).isoformat().removesuffix("+00:00")


@cached("log origins as text", most_entries=256, most_entry_bytes=2 << 10, most_size=None)
def _text_origin(level: str, logger: str) -> str:
    return f"level={_text(level.lower())} logger={_text(logger)}"


@cached("log origins as JSON", most_entries=256, most_entry_bytes=2 << 10, most_size=None)
def _json_origin(level: str, logger: str) -> str:
    return f'"level": {_json(level.lower())}, "logger": {_json(logger)}'


def _text(value: object) -> str:
    if type(value) is int:
        return repr(value)
    if type(value) is not str and (value is None or isinstance(value, _SCALARS)):
        return _json(value)
    text = str(value)
    # These checks take a fraction of the time of a regular expression.
    is_quoted = " " in text or "=" in text or '"' in text or "\\" in text or not text.isprintable() or not text
    return _quoted(text) if is_quoted else text


def _quoted(text: str) -> str:
    quoted = _json(text)
    return quoted if quoted.isprintable() else _escaped(text)


def _json(value: object) -> str:
    # A call of the encoder takes microseconds.
    if type(value) is str:
        return encode_basestring(value)
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return repr(value)
    return _encode(value)


@cached("log fields as text", most_entries=256, most_entry_bytes=2 << 10, most_size=None)
def _text_key(key: str) -> str:
    return f" {_text(key)}="


@cached("log fields as JSON", most_entries=256, most_entry_bytes=2 << 10, most_size=None)
def _json_key(key: str) -> str:
    return f", {encode_basestring(str(key))}: "


def _escaped(value: object) -> str:
    # Letters of any script stay; line and paragraph separators and direction marks do not. JSON does not escape DEL.
    return _encode_as_ascii(value).replace("\x7f", "\\u007f")

"""Logs: one line per record on standard error, as logfmt text or as JSON.

Whatever a record holds stays inside its line and its field: values are quoted, and what is not printable is escaped.
"""

import json
import logging
import re
import sys
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, TextIO

LogFormat = Literal["text", "json"]

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
# From here on Kubernetes' components tell what they are doing rather than what they did (klog's V(4)).
_DEBUG_VERBOSITY = 4

# They log a line or more per HTTP request at info or debug; this service tells about its calls itself.
_CHATTY_LOGGERS = ("httpcore", "httpx", "uvicorn.access")

# What every record has; the rest came as `extra`. uvicorn adds its message once more, with terminal colours.
_RECORD_ATTRIBUTES = {*vars(logging.makeLogRecord({})), "asctime", "message", "color_message"}
_MUST_BE_QUOTED = re.compile(r'[ "=\\]')

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

    uvicorn's own records come along if it is run with `log_config=None`; run it with `access_log=False`, too.
    """
    # No line tells of these, and finding out takes time (see "Optimization" in the documentation of logging).
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JSONFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    for name in _CHATTY_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)


class TextFormatter(logging.Formatter):
    """Writes logfmt: `time=… level=info logger=… msg="…"`, then the record's `extra` as key=value."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        return " ".join([f"{_key(key)}={_text(value)}" for key, value in _fields(record).items()])


class JSONFormatter(logging.Formatter):
    """Writes an object with the members time, level, logger and msg, then the record's `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        return _json(_fields(record))


def _fields(record: logging.LogRecord) -> dict[str, object]:
    # RFC 3339 in UTC.
    time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
    fields: dict[str, object] = {
        "time": time,
        "level": record.levelname.lower(),
        "logger": record.name,
        "msg": record.getMessage(),
    }
    if record.exc_info:
        fields["exception"] = logging.Formatter().formatException(record.exc_info)
    if record.stack_info:
        fields["stack"] = record.stack_info
    for key, value in vars(record).items():
        if key not in _RECORD_ATTRIBUTES:
            fields[f"{key}_" if key in fields else key] = value
    return fields


def _text(value: object) -> str:
    if type(value) is int:
        return str(value)
    if value is None or isinstance(value, _SCALARS):
        return _encode(value)
    text = str(value)
    is_plain = text and text.isprintable() and not _MUST_BE_QUOTED.search(text)
    return text if is_plain else _json(text)


_key = lru_cache(maxsize=256)(_text)


def _json(value: object) -> str:
    text = _encode(value)
    # Letters of any script may stay, but not line and paragraph separators or direction marks. JSON lets DEL stand.
    return text if text.isprintable() else _encode_as_ascii(value).replace("\x7f", "\\u007f")

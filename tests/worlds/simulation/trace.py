"""What happened in a world, one line an event."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.worlds.simulation.timeline import Timeline


class Trace:
    """Collects lines: the world's time, the number of callbacks that had run by then, who, and what.

    The number makes each difference between two runs show in the next line, also one that has no line of its own.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.lines: list[str] = []
        self._timeline = timeline

    def write(self, who: str, what: str) -> None:
        """Add an event."""
        self.lines.append(f"{self._timeline.now:.6f} {self._timeline.steps} {who}: {what}")


class _TracedLogs(logging.Handler):
    """Writes what the programs log into the trace. `who` returns the name of the program that runs."""

    def __init__(self, trace: Trace, who: Callable[[], str]) -> None:
        super().__init__()
        self._trace = trace
        self._who = who

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, with its error, and the fields that the log has beside the text; of libraries, warnings."""
        if record.levelno < logging.WARNING and not record.name.startswith("extender_service"):
            return
        text = f"{record.levelname} {record.getMessage()}"
        fields = sorted((name, value) for name, value in vars(record).items() if name not in _USUAL)
        text += "".join(f" {name}={value}" for name, value in fields)
        if record.exc_info and record.exc_info[1] is not None:
            text += f" {record.exc_info[1]!r}"
        self._trace.write(self._who(), " ".join(text.split()))


_USUAL = vars(logging.makeLogRecord({})).keys() | {"message", "asctime", "taskName"}


@contextmanager
def traced_logs(trace: Trace, who: Callable[[], str], level: int = logging.INFO) -> Iterator[None]:
    """Have the trace show what is logged from this level on, until the context ends."""
    root, handler = logging.getLogger(), _TracedLogs(trace, who)
    level_before = root.level
    root.addHandler(handler)
    root.setLevel(level)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level_before)

"""Counts what Python executes: the same on any machine, however busy it is, as long as the code is the same."""

import gc
import itertools
import statistics
import sys
from collections.abc import Callable, Coroutine, Iterable
from types import FrameType
from typing import Any

# Each leaves something to the next one. From the fourth on they count the same, but for what comes up now and then.
WARM_UP, COUNTED = 3, 5

# A clock at which no time passes, however long counting takes. Like a real one, it executes no Python.
STILL = itertools.repeat(0.0).__next__


def typical(counts: Iterable[int]) -> int:
    """Return the median of a few counts of the same thing, after some that warmed up what is kept in between."""
    return statistics.median_high(itertools.islice(counts, WARM_UP, WARM_UP + COUNTED))


def executed(call: Callable[[], object]) -> int:
    """Make a call, and return how many bytecodes it executed."""
    gc.disable()  # callbacks of the collector would count, too
    try:
        return _counted(call)
    finally:
        gc.enable()


if sys.version_info >= (3, 12):

    def _counted(call: Callable[[], object]) -> int:
        count = 0

        def one_more(_code: object, _offset: int) -> None:
            nonlocal count
            count += 1

        monitoring = sys.monitoring
        tool, event = monitoring.PROFILER_ID, monitoring.events.INSTRUCTION
        monitoring.use_tool_id(tool, "tests.counted")
        monitoring.register_callback(tool, event, one_more)
        monitoring.set_events(tool, event)
        try:
            call()
        finally:
            monitoring.set_events(tool, 0)
            monitoring.register_callback(tool, event, None)
            monitoring.free_tool_id(tool)
        return count

else:

    def _counted(call: Callable[[], object]) -> int:
        count = 0

        def in_function(_frame: FrameType, event: str, _arg: object) -> Any:
            nonlocal count
            count += event == "opcode"
            return in_function

        def enter(frame: FrameType, _event: str, _arg: object) -> Any:
            frame.f_trace_lines = False
            frame.f_trace_opcodes = True
            return in_function

        before = sys.gettrace()
        sys.settrace(enter)
        try:
            call()
        finally:
            sys.settrace(before)
        return count


def finish(coroutine: Coroutine[object, None, object]) -> None:
    """Run a coroutine that awaits nothing but its next turn to its end, without what an event loop executes."""
    try:
        while True:
            coroutine.send(None)
    except StopIteration:
        pass

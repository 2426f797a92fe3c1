"""Runs extender-service and samples its stack: python -m bench.scheduler.profiled FILE ARGUMENTS.

One sample is taken each millisecond of processor time, so other programs on the machine do not show, and the program is
hardly slower. FILE gets a line for each stack with its number of samples, as flamegraph.pl and speedscope.app read it.
Samples before the first scheduling attempt do not count.
"""

import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

from extender_service.command import cli

_SECONDS = 0.001
_ATTEMPT = "schedule_one"
_NO_WATCHDOG = "--watchdog-timeout=0"  # which would take the signal and the timer for itself


class Samples:
    """The stacks of the main thread, from the outermost function to the innermost."""

    def __init__(self) -> None:
        self.stacks: Counter[str] = Counter()
        self._has_begun = False

    def take(self, _number: int, frame: FrameType | None) -> None:
        """Note the stack that a signal has interrupted."""
        names = []
        while frame is not None:
            code = frame.f_code
            self._has_begun = self._has_begun or code.co_name == _ATTEMPT
            names.append(f"{Path(code.co_filename).stem}:{code.co_qualname}")
            frame = frame.f_back
        if self._has_begun:
            self.stacks[";".join(reversed(names))] += 1


def main() -> int:
    """Run the command line, then write the samples to FILE."""
    file = Path(sys.argv[1])
    samples = Samples()
    signal.signal(signal.SIGPROF, samples.take)
    signal.setitimer(signal.ITIMER_PROF, _SECONDS, _SECONDS)
    try:
        return cli.main([*sys.argv[2:], _NO_WATCHDOG])
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        file.write_text("".join(f"{stack} {count}\n" for stack, count in samples.stacks.most_common()))


if __name__ == "__main__":
    sys.exit(main())

"""Child processes that are stopped by their id and don't outlive the test run."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

# util-linux's setpriv asks the kernel to kill the child when the process that started it is gone, also by SIGKILL. It
# then executes the command in its own place, so that the id stays.
DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--") if shutil.which("setpriv") else ()


class Process:
    """A running program whose output goes to the end of a log file.

    Start it from the main thread: Linux counts the thread that started a child as its parent.
    """

    def __init__(self, command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None) -> None:
        """Start `command`. `environment` is added to this process's own; `log` is made where it does not exist."""
        self.log = log
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                [*DIE_WITH_PARENT, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative, a signal's number, if it was killed."""
        return self._child.poll()

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of its output, for messages."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def require_running(self) -> None:
        """Raise RuntimeError with the last lines of its log if it has ended."""
        if self.exit_code is not None:
            raise RuntimeError(f"{self.log.stem} ended with {self.exit_code}:\n{self.log_tail()}")

    def stop(self, timeout_seconds: float = 20.0) -> int:
        """SIGTERM, then SIGKILL if it still runs after the time-out. Returns the exit code."""
        self._child.terminate()
        try:
            return self._child.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        """SIGKILL: it has no chance to tidy up. Returns the exit code."""
        self._child.kill()
        return self._child.wait()

"""Runs extender-service under cProfile: python -m bench.scheduler.profiled FILE ARGUMENTS.

It counts processor time, so that other programs on the machine do not show.
"""

import cProfile
import sys
import time
from pathlib import Path

import extender_service.command.schedule  # noqa: F401 - its import is not to be profiled
from extender_service.command import cli


def main() -> int:
    """Run the command line, then write the profile to FILE."""
    file = Path(sys.argv[1])
    profile = cProfile.Profile(time.process_time)
    try:
        return profile.runcall(cli.main, sys.argv[2:])
    finally:
        profile.dump_stats(file)


if __name__ == "__main__":
    sys.exit(main())

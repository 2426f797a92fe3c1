"""Let a cluster churn with kube-scheduler and with `schedule` at the same time, and compare what they count.

    python -m tests.scheduler_soak --minutes 45

Each has a control plane of its own. One script, by its own clock, changes both: pods that can never be scheduled, gated
ones, short-lived ones of many kinds, and nodes that come, go and change. It fails unless attempts, and pods that came
into queues, are as many as kube-scheduler's within a tenth, by result and by event; unless the memory of `schedule` is
flat; and unless a fresh kube-scheduler has nothing left to do in the end.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.scheduler_soak.run import Outcome, Settings, run
from tests.scheduler_soak.script import Size
from tests.support import go_programs


def main() -> int:
    """Print what was measured; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.scheduler_soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=45.0, help="how long (default %(default)g)")
    parser.add_argument("--pods", type=float, default=5.0, help="pods that come in a second (default %(default)g)")
    parser.add_argument("--hints", action="store_true", help="with the feature gate SchedulerQueueingHints")
    parser.add_argument(
        "--calibrate", action="store_true", help="compare kube-scheduler with itself: what chance alone does"
    )
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the script (default: the time)")
    parser.add_argument("--log", type=Path, help="a new directory for all logs, its path short; else they are deleted")
    options = parser.parse_args()
    size = Size(seconds=60 * options.minutes, pods_a_second=options.pods)
    settings = Settings(hints=options.hints)
    if options.calibrate:
        settings = settings._replace(programs=("kube-scheduler", "kube-scheduler"))
    controlplane = go_programs.build(Path(__file__).parents[1] / "e2e" / "controlplane")
    print(f"seed {options.seed}, hints {'on' if options.hints else 'off'}", flush=True)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        directory = options.log or Path(folder)
        directory.mkdir(exist_ok=True)
        outcome = run(controlplane, directory, size, options.seed, settings, lambda line: print(line, flush=True))
    _print(outcome)
    is_fine = not outcome.complaints and all(figure.is_fine is not False for figure in outcome.figures)
    return 0 if is_fine else 1


def _print(outcome: Outcome) -> None:
    for line in outcome.report:
        print(line)
    for complaint in outcome.complaints:
        print(f"WRONG: {complaint}")


if __name__ == "__main__":
    sys.exit(main())

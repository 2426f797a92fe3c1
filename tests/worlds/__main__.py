"""Runs worlds: `python -m tests.worlds --seed 7 --minutes 10 --replicas 2 --faults` prints the history of one.

With `--seeds N` it runs N seeds from that one on, each in a process of its own, and prints a digest of each history.
"""

import argparse
import gc
import hashlib
import os
import sys
import time
from collections.abc import Iterator


def main() -> int:
    """Run the worlds of the command line. Returns 1 if something went wrong in one."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--seeds", type=int, default=0, help="run so many")
    arguments.add_argument("--minutes", type=float, default=5.0, help="simulated")
    arguments.add_argument("--replicas", type=int, default=1)
    arguments.add_argument("--nodes", type=int, default=5)
    arguments.add_argument("--pods", type=int, default=60)
    arguments.add_argument("--faults", action="store_true")
    arguments.add_argument("--mode", choices=("beside", "replace"), help="let the replicas ask `serve` in this mode")
    arguments.add_argument("--ballast", type=int, default=0, help="objects to make first, which move all others")
    options = arguments.parse_args()
    gc.disable()  # a world collects garbage at set steps
    ballast = [bytearray(16 + number % 4096) for number in range(options.ballast)]
    from tests.worlds import scenarios  # noqa: F401 - before the processes part

    if not options.seeds:
        history, problems = _run(options, options.seed)
        sys.stdout.writelines(f"{line}\n" for line in history)
        return int(problems)
    ends = list(_all_ends(options))
    del ballast
    return int(any(ends))


def _all_ends(options: argparse.Namespace) -> Iterator[int]:
    """Run the worlds of all seeds, on all cores; yield how each process ended."""
    running = 0
    for seed in range(options.seed, options.seed + options.seeds):
        if running == (os.cpu_count() or 1):
            yield os.wait()[1]
            running -= 1
        _begin(options, seed)
        running += 1
    for _ in range(running):
        yield os.wait()[1]


def _begin(options: argparse.Namespace, seed: int) -> None:
    """Run a world in a process of its own."""
    sys.stdout.flush()
    if os.fork():
        return
    status = 1
    try:
        history, problems = _run(options, seed)
        digest = hashlib.sha256("\n".join(history).encode()).hexdigest()
        print(f"seed {seed}: {digest}", flush=True)
        status = int(problems)
    finally:
        os._exit(status)


def _run(options: argparse.Namespace, seed: int) -> tuple[list[str], bool]:
    """Run a world; return its history and whether something went wrong. Prints how it went."""
    from tests.worlds.scenarios import Scenario, ScheduledCluster
    from tests.worlds.simulation.trace import traced_logs

    has_faults: bool = options.faults
    scenario = Scenario(
        seed, options.minutes, options.replicas, options.nodes, options.pods, has_faults=has_faults, mode=options.mode
    )
    started = time.perf_counter()
    cluster = ScheduledCluster(scenario)
    with traced_logs(cluster.world.trace, cluster.world.who):
        cluster.run()
    seconds = time.perf_counter() - started
    bound = sum(1 for pod in cluster.pods() if pod["spec"].get("nodeName"))
    print(
        f"seed {seed}: {options.minutes:g} minutes in {seconds:.1f} s, {60 * options.minutes / seconds:.0f} times real "
        f"time; {cluster.world.timeline.steps} steps, {bound} of {len(cluster.pods())} pods bound",
        file=sys.stderr,
    )
    problems = cluster.problems()
    for problem in problems:
        print(f"seed {seed}: {problem}", file=sys.stderr)
    return cluster.world.trace.lines, bool(problems)


if __name__ == "__main__":
    sys.exit(main())

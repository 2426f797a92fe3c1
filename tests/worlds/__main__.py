"""Runs simulated worlds.

    python -m tests.worlds --seed 7 --minutes 10 --replicas 2 --faults    # one, and prints its history
    python -m tests.worlds --seeds 100 --minutes 10 --replicas 2 --faults # many new ones, on all cores
    python -m tests.worlds --seed 7 --minutes 10 --shrink                 # looks for a smaller one that fails as well

Ends with 1 if something went wrong in one.
"""

import argparse
import gc
import os
import random
import sys
from functools import partial

from tests.worlds.finding.command_line import add_scenario_options, scenario
from tests.worlds.finding.forked import Limits, cores
from tests.worlds.finding.many_worlds import Plan, Progress, report, run_worlds
from tests.worlds.finding.shrinking import Shrinking
from tests.worlds.finding.shrunk_worlds import run_all, told
from tests.worlds.finding.world_run import run_world


def main() -> int:
    """Run the worlds of the command line; return the exit status."""
    if os.environ.get("PYTHONHASHSEED") != "0":  # which histories depend on
        os.execve(sys.executable, [*sys.orig_argv], {**os.environ, "PYTHONHASHSEED": "0"})
    options = _parser().parse_args()
    gc.disable()  # a world collects garbage at set steps
    ballast = [bytearray(16 + number % 4096) for number in range(options.ballast)]
    if options.shrink:
        return _shrink(options)
    status = _run_many(options) if options.seeds or options.seconds else _run_one(options)
    del ballast
    return status


def _shrink(options: argparse.Namespace) -> int:
    first = scenario(options, _one_seed(options))
    limits = _limits(options)
    shrinking = Shrinking(
        partial(run_all, limits=limits),
        seconds=options.shrink_seconds,
        at_once=limits.jobs,
        say=lambda line: print(line, file=sys.stderr),
    )
    try:
        shrunk = shrinking.shrink(first)
    except ValueError as error:
        print(f"seed {first.seed}: {error}")
        return 0
    sys.stdout.writelines(f"{line}\n" for line in told(shrunk))
    return 1


def _run_one(options: argparse.Namespace) -> int:
    seed = _one_seed(options)
    end, cluster = run_world(scenario(options, seed))
    sys.stdout.writelines(f"{line}\n" for line in cluster.world.trace.lines)
    speed = end.simulated_seconds / end.real_seconds
    figures = f"{end.simulated_seconds / 60:g} minutes in {end.real_seconds:.1f} s, {speed:.0f} times real time"
    print(f"seed {seed}: {figures}; {end.steps} steps, {end.bound} of {end.pods} pods bound", file=sys.stderr)
    for violation in end.violations:
        print(f"seed {seed}: {violation}", file=sys.stderr)
    return int(bool(end.violations))


def _run_many(options: argparse.Namespace) -> int:
    seed = random.SystemRandom().randrange(1_000_000_000) if options.seed is None else options.seed
    print(f"seeds from {seed} on", flush=True)
    draw = partial(scenario, options)
    plan = Plan(draw(seed), options.seeds, options.seconds, options.failures, draw)
    totals = run_worlds(plan, _limits(options), Progress(options.seeds))
    if options.digests:
        for each, end in sorted(totals.ends.items()):
            print(f"seed {each}: {end.digest}")
    print("\n".join(report(totals)))
    return int(bool(totals.failed))


def _one_seed(options: argparse.Namespace) -> int:
    return 1 if options.seed is None else options.seed


def _limits(options: argparse.Namespace) -> Limits:
    return Limits(options.jobs, options.limit_seconds, options.limit_mib * 2**20)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.worlds", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, help="the first (default: 1 of one world, a new one of many)")
    add_scenario_options(parser)
    parser.add_argument("--shrink", action="store_true", help="look for a smaller world in which the same goes wrong")
    parser.add_argument("--shrink-seconds", type=float, default=600.0, help="for so long (default %(default)g)")
    many = parser.add_argument_group("many worlds")
    many.add_argument("--seeds", type=int, help="run so many")
    many.add_argument("--seconds", type=float, help="begin no more of them after so much real time")
    many.add_argument("--failures", type=int, help="begin no more of them once so many have failed")
    many.add_argument("--jobs", type=int, default=cores(), help="at once (default: %(default)d, the cores)")
    many.add_argument("--limit-seconds", type=float, default=600.0, help="real time of each (default %(default)g)")
    many.add_argument("--limit-mib", type=int, default=4096, help="memory of each (default %(default)d)")
    many.add_argument("--digests", action="store_true", help="print a digest of each history")
    many.add_argument("--ballast", type=int, default=0, help="objects to make first, which move all others")
    return parser


if __name__ == "__main__":
    sys.exit(main())

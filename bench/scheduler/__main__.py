"""Compares whole schedulers, on a real and on a stub API server: python -m bench.scheduler.

In turn run kube-scheduler as it comes (`stock`) and looking at all nodes (`stock 100 %`), a program that binds without
thinking (`floor`: bench/peers/floor), and `extender-service schedule`. On a real API server and etcd, which share the
machine, the floor program shows what these can take. The stub (bench/peers/stubapi -live) costs next to nothing: there
the scheduler is the limit.

A measurement begins with the scheduler's first write, which may be about a pod that fits nowhere or about a victim, and
ends with the event about the last binding, or after 20 s (preemption: 300 s). `wait` is the time from a pod's creation,
or from the first write if that is later, to its binding. `failed` measurements ended with an error. `events missing`
were dropped, or not written when the time was over. `schedule is` so many times as fast as the program of the row. Of
the placements of `schedule`, one in 199 is `judged` by kube-scheduler's own plugins, with the state that it was decided
on; `worse` are those that these would not make.
"""

import argparse
from functools import partial
from pathlib import Path

from bench.run import parser_of, run_parts
from bench.scheduler.choice import Choice
from bench.scheduler.comparison import compare
from bench.scheduler.contestants import CONTESTANTS
from bench.scheduler.scenes import SCENES
from extender_service.config.release import OLDEST_MINOR, parse_emulated_version, version_of
from tests.e2e.support.programs.control_plane import PROGRAMS


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("python -m bench.scheduler", __doc__)
    parser.add_argument("--server", choices=("real", "stub"), help="one of the API servers (default: both)")
    parser.add_argument("--nodes", type=int, help="a cluster of so many nodes (default: two sizes for each server)")
    parser.add_argument("--pods", type=int, help="pods of a measurement (default: 5000, quick: 300)")
    parser.add_argument("--rate", type=int, help="so many pods arrive a second (default: all wait from the beginning)")
    parser.add_argument("--workload", choices=[*SCENES], action="append", help="one workload; may be repeated")
    parser.add_argument("--program", choices=[*CONTESTANTS], action="append", help="one program; may be repeated")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="sample the stack of `schedule` into FILE")
    parser.add_argument(
        "--release",
        choices=[version_of(minor) for minor in PROGRAMS],
        default=version_of(OLDEST_MINOR),
        help="of the real API server and kube-scheduler, which `schedule` then follows (default: %(default)s)",
    )
    return parser


parser = _parser()
options = parser.parse_args()
if options.release != version_of(OLDEST_MINOR) and options.server != "real":
    parser.error(f"--release {options.release} needs --server real: the stub is an API server of 1.31")
choice = Choice(
    options.server,
    options.nodes,
    options.pods,
    options.workload,
    options.program,
    options.rate,
    options.profile,
    parse_emulated_version(options.release),
)
run_parts(options, [partial(compare, choice=choice)])

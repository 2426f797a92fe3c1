"""Compares whole schedulers, on a real and on a stub API server: python -m bench.scheduler.

In turn run kube-scheduler as it comes (`stock`) and looking at all nodes (`stock 100 %`), a program that binds without
thinking (`floor`: bench/peers/floor), and `extender-service schedule`. On a real API server and etcd, which share the
machine, the floor program shows what these can take. The stub (bench/peers/stubapi -live) costs next to nothing: there
the scheduler is the limit.

A measurement begins with the first binding and ends with the event about the last one, or after 20 s. `wait` is the
time from a pod's creation to its binding. `events missing` were dropped, or not written when the time was over.
`schedule is` so many times as fast as the program of the row.
"""

import argparse
from functools import partial
from pathlib import Path

from bench.run import parser_of, run_parts
from bench.scheduler.choice import Choice
from bench.scheduler.comparison import compare
from bench.scheduler.contestants import CONTESTANTS
from bench.scheduler.scenes import SCENES


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("python -m bench.scheduler", __doc__)
    parser.add_argument("--server", choices=("real", "stub"), help="one of the API servers (default: both)")
    parser.add_argument("--nodes", type=int, help="a cluster of so many nodes (default: two sizes for each server)")
    parser.add_argument("--pods", type=int, help="pods of a measurement (default: 5000, quick: 300)")
    parser.add_argument("--rate", type=int, help="so many pods arrive a second (default: all wait from the beginning)")
    parser.add_argument("--workload", choices=[*SCENES], action="append", help="one workload; may be repeated")
    parser.add_argument("--program", choices=[*CONTESTANTS], action="append", help="one program; may be repeated")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="sample the stack of `schedule` into FILE")
    return parser


options = _parser().parse_args()
choice = Choice(
    options.server, options.nodes, options.pods, options.workload, options.program, options.rate, options.profile
)
run_parts(options, [partial(compare, choice=choice)])

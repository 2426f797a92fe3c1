"""The settings of a run, which each benchmark gets, and the command line of each benchmark."""

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from bench.programs import Peers
from bench.report import Report
from tests.support import go_programs

NEEDS_GO = "not measured, the peers need Go (https://go.dev/dl)"


@dataclass(frozen=True)
class Run:
    """The settings of one run. `quick` uses small clusters and few calls. `peers` is None without Go to build them.

    `directory` is for logs and temporary files.
    """

    quick: bool
    rounds: int
    report: Report
    peers: Peers | None
    directory: Path


def main(program: str, description: str | None, parts: Sequence[Callable[[Run], None]]) -> None:
    """Run `parts` one after the other, with the settings of the command line."""
    run_parts(parser_of(program, description).parse_args(), parts)


def parser_of(program: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser of the options that all benchmarks have."""
    parser = argparse.ArgumentParser(
        prog=program, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small clusters and few calls, to see that it works")
    parser.add_argument("--rounds", type=int, help="how often each side is measured (default: 5, quick: 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append each row as a line of JSON")
    return parser


def run_parts(options: argparse.Namespace, parts: Sequence[Callable[[Run], None]]) -> None:
    """Run `parts` one after the other, with the settings of `parser_of`. SIGTERM ends a run tidily, as ^C does.

    Exits with status 1 if anything failed that the run went on after.
    """
    signal.signal(signal.SIGTERM, _exit)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        lines = stack.enter_context(options.json.open("a")) if options.json else None
        run = Run(
            options.quick,
            options.rounds or (1 if options.quick else 5),
            Report(lines),
            Peers(directory) if go_programs.has_go() else None,
            directory,
        )
        for part in parts:
            part(run)
        if run.report.has_failed:
            sys.exit(1)


def _exit(number: int, _frame: FrameType | None) -> None:
    """End the program by an exception, so that it stops what it has started and deletes its files."""
    sys.exit(128 + number)

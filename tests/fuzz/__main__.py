"""Sends generated requests to the service, in both modes, and looks at every answer: python -m tests.fuzz.

Nothing may crash it, hang it, make it grow or answer with a 500; nothing may break out of its log; and kube-scheduler's
own types must be able to read what it answers. Ends with exit code 1 if something was found, and writes the requests
that cause it into files, to be sent again with --replay.
"""

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.fuzz.checker import GoChecker
from tests.fuzz.cluster import golden_cluster
from tests.fuzz.covering import explored
from tests.fuzz.report import describe, tables
from tests.fuzz.requests import Request
from tests.fuzz.run import Run
from tests.fuzz.services import running_services
from tests.fuzz.sources import all_sources
from tests.fuzz.stub_api import StubApi


def main(arguments: list[str] | None = None) -> int:
    """Run as the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000, help="how many to send (default: 100,000)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="when to stop in any case")
    parser.add_argument("--seed", type=int, default=0, help="the same number makes the same requests")
    parser.add_argument("--covering-seconds", type=int, default=0, help="look for inputs that reach new code, first")
    parser.add_argument("--findings", type=Path, default=Path("findings"), help="the directory for what is found")
    parser.add_argument(
        "--replay", type=Path, nargs="+", metavar="FILE", help="only send these requests, in this order"
    )
    options = parser.parse_args(arguments)
    cluster = golden_cluster()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        covering = explored(directory, options.covering_seconds, options.seed)
        api = stack.enter_context(StubApi(cluster))
        checker = stack.enter_context(GoChecker())
        run = Run(stack.enter_context(running_services(directory, cluster, api)), api, checker)
        if options.replay:
            run.replay([Request.read(file.read_bytes()) for file in options.replay])
        else:
            run.explore(all_sources(cluster, api, covering), options.requests, options.seconds, options.seed)
    print(tables(run))
    for finding in run.findings:
        print(describe(finding, options.findings))
    return 1 if run.findings else 0


if __name__ == "__main__":
    sys.exit(main())

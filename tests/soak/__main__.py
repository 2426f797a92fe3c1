"""Let a cluster churn under a service that is asked all the while: python -m tests.soak.

Nodes and pods come, change and go, with values that never were before; a scheduler asks, binds, and changes its mind.
Then all that came goes. Memory has to be flat, the last minute's calls as fast as the first's, and the tables as full
as those of a service that has seen nothing of this. Ends with status 1 if one of it is not so.
"""

import argparse
import asyncio
import gc
import sys
import tempfile
from pathlib import Path

from tests.soak.figures import as_lines
from tests.soak.soak import Size, soak


def main() -> int:
    """Print what was measured; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default %(default)g)")
    parser.add_argument("--nodes", type=int, default=1000, help="nodes that stay (default %(default)s)")
    parser.add_argument("--pods", type=int, default=20_000, help="pods that stay (default %(default)s)")
    parser.add_argument("--events", type=float, default=500.0, help="events a second (default %(default)g)")
    parser.add_argument("--calls", type=float, default=100.0, help="calls a second (default %(default)g)")
    parser.add_argument("--log", type=Path, help="a new directory for the logs of the services; else they are deleted")
    args = parser.parse_args()
    if args.log is not None:
        args.log.mkdir(parents=True)
    size = Size(args.minutes, args.nodes, args.pods, args.events, args.calls)
    gc.disable()  # nothing here is in cycles, and to look for them holds up calls
    with tempfile.TemporaryDirectory() as directory:
        figures = asyncio.run(soak(size, args.log or Path(directory), report=print))
    for line in as_lines(figures):
        print(line)
    return 0 if all(figure.is_fine is not False for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())

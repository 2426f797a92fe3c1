"""Attack a service, and see what becomes of it and of an ordinary caller beside: python -m tests.hostile."""

import argparse
import resource
import sys
import tempfile
from pathlib import Path

from tests.hostile.rounds import run

# A quarter of a gigabyte of one body, what it is decoded to, and as much again for the join and the parts of it.
MEMORY_AIM_MIB = 1_500
# kube-scheduler waits for 5 s by default.
NEIGHBOUR_AIM_SECONDS = 4.0


def main() -> int:
    """Print a table of attacks; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument(
        "--nodes", type=int, default=5_000, help="nodes of the cluster, 10 pods on each (default: 5000)"
    )
    parser.add_argument("--connections", type=int, default=10_000, help="slow connections (default: 10000)")
    parser.add_argument("--share", type=float, default=1.0, help="how much of what takes long (default: 1)")
    parser.add_argument("--only", default="", help="attacks that have this in their name")
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as directory:
        results = run(Path(directory), options.nodes, min(options.connections, hard - 200), options.share, options.only)
        is_fine = True
        print(f"{'attack':36}{'seconds':>8}{'others, ms':>12}{'peak, MiB':>11}{'kept, MiB':>11}  answer")
        for result in results:
            problem = result.problem(MEMORY_AIM_MIB, NEIGHBOUR_AIM_SECONDS)
            is_fine &= not problem
            print(
                f"{result.attack:36}{result.seconds:8.2f}{1000 * result.neighbour_seconds:12.0f}"
                f"{result.peak_mib:11.0f}{result.kept_mib:11.0f}  {problem or result.answer[:90]}",
                flush=True,
            )
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main())

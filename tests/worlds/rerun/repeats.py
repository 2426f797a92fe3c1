"""Run seeds twice, each world in a process of its own with another layout of memory, and compare their histories.

    python -m tests.worlds.rerun.repeats --seeds 100

Ends with 1 if a history differs.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Final

# What moves objects to other addresses: as many made first, and where memory comes from.
_LAYOUTS: Final = ((0, "pymalloc"), (100_000, "malloc"))
_DIGEST: Final = re.compile(r"^seed (\d+): ([0-9a-f]{64})$", re.MULTILINE)
_KINDS: Final = (
    ("--replicas", "2", "--faults"),
    ("--replicas", "2", "--faults", "--others"),
    ("--replicas", "2", "--faults", "--others", "--swarm"),
    ("--mode", "beside", "--replicas", "2", "--faults", "--others"),
    ("--mode", "replace", "--replicas", "2", "--faults", "--others"),
    ("--mode", "preempting", "--replicas", "2", "--faults", "--others"),
)


def histories(seeds: range, options: Sequence[str], seconds: float) -> list[Mapping[int, str]]:
    """Return a digest of the history of each seed, once for each layout of memory. A world without an end has none.

    Raises TimeoutExpired after so many seconds, and CalledProcessError if the worlds could not be run at all.
    """
    return [_digests(seeds, options, seconds, ballast, allocator) for ballast, allocator in _LAYOUTS]


def _digests(seeds: range, options: Sequence[str], seconds: float, ballast: int, allocator: str) -> Mapping[int, str]:
    which = ("--seed", str(seeds.start), "--seeds", str(len(seeds)), "--digests", "--ballast", str(ballast))
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONMALLOC": allocator}
    command = [sys.executable, "-m", "tests.worlds", *which, *options]
    ran = subprocess.run(command, env=environment, check=False, stdout=subprocess.PIPE, text=True, timeout=seconds)
    if ran.returncode not in (0, 1):  # 1: worlds failed, of which most have a history all the same
        ran.check_returncode()
    return {int(seed): digest for seed, digest in _DIGEST.findall(ran.stdout)}


def main() -> int:
    """Compare seeds of each kind of world; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.worlds.rerun.repeats",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=1, help="the first (default %(default)d)")
    parser.add_argument("--seeds", type=int, default=100, help="of each kind of world (default %(default)d)")
    parser.add_argument("--minutes", type=float, default=10.0, help="simulated (default %(default)g)")
    options = parser.parse_args()
    seeds, differ = range(options.seed, options.seed + options.seeds), 0
    for kind in _KINDS:
        first, second = histories(seeds, ("--minutes", str(options.minutes), *kind), seconds=86_400.0)
        different = [seed for seed in seeds if first.get(seed, "no end") != second.get(seed)]
        differ += len(different)
        print(f"{' '.join(kind)}: {len(seeds) - len(different)} of {len(seeds)} repeated", *different[:10], flush=True)
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())

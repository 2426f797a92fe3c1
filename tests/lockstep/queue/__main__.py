"""Compare the scheduling queue with kube-scheduler's on new scripts: python -m tests.lockstep.queue [--scripts N]."""

import argparse
import logging
import secrets
from collections import Counter

from tests.lockstep.queue.comparison import compare
from tests.lockstep.queue.generator import generate

BATCH = 100


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.lockstep.queue", description=__doc__)
    parser.add_argument("--scripts", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=None, help="of the first script; those after it have the next ones")
    args = parser.parse_args()
    logging.disable()  # plugins fail in scripts
    first = secrets.randbelow(2**40) if args.seed is None else args.seed
    print(f"{args.scripts} scripts from seed {first}")
    seen: Counter[str] = Counter()
    for start in range(first, first + args.scripts, BATCH):
        seeds = range(start, min(start + BATCH, first + args.scripts))
        seen += compare(generate(seed) for seed in seeds)
    for name, count in sorted(seen.items()):
        print(f"{name:42} {count:11,}")


if __name__ == "__main__":
    main()

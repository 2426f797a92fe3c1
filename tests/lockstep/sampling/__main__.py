"""Compare sampling with kube-scheduler's, 200 pods a script: python -m tests.lockstep.sampling [--scripts N]."""

import argparse
import secrets
from collections import Counter

from tests.lockstep.sampling.comparison import compare
from tests.lockstep.sampling.generator import generate

BATCH = 10


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.lockstep.sampling", description=__doc__)
    parser.add_argument("--scripts", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None, help="of the first script; those after it have the next ones")
    args = parser.parse_args()
    first = secrets.randbelow(2**40) if args.seed is None else args.seed
    print(f"{args.scripts} scripts from seed {first}")
    seen: Counter[str] = Counter()
    for start in range(first, first + args.scripts, BATCH):
        seeds = range(start, min(start + BATCH, first + args.scripts))
        seen += compare(generate(seed) for seed in seeds)
    for name, count in sorted(seen.items()):
        print(f"{name:10} {count:9,}")


if __name__ == "__main__":
    main()

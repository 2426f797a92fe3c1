"""Compares the queueing hints with kube-scheduler's on new random cases: python -m tests.lockstep.hints [--pairs N].

With --golden, writes the golden cases and kube-scheduler's answers on them instead.
"""

import argparse
import logging
import secrets
import sys

from tests.lockstep.hints import golden
from tests.lockstep.hints.comparison import ask, differences, encoded
from tests.lockstep.hints.generator import EVENTS_PER_CASE, cases

BATCH = 200


def main() -> int:
    """Run the comparison; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.lockstep.hints", description=__doc__)
    parser.add_argument("--pairs", type=int, default=20_000, help="pairs of objects")
    parser.add_argument("--seed", type=int, default=None, help="of the first batch; those after it have the next ones")
    parser.add_argument("--golden", action="store_true")
    args = parser.parse_args()
    if args.golden:
        golden.make()
        return 0
    logging.disable(logging.CRITICAL)  # failing hints are part of the cases
    first = secrets.randbelow(2**40) if args.seed is None else args.seed
    print(f"{args.pairs} pairs from seed {first}")
    count = 0
    for batch in range(-(-args.pairs // (BATCH * EVENTS_PER_CASE))):
        made = list(cases(first + batch, BATCH))
        found = differences(made, ask(encoded(made)))
        count += len(found)
        print("\n".join(found[:20]), end="\n" if found else "")
    print(f"{count} differences")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())

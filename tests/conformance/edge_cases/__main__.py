"""Write cases that the first generator never makes: python -m tests.conformance.edge_cases.

They are in the oracle's form, one JSON object per line, and go to standard output; the seed goes to standard error. The
same seed always gives the same cases.
"""

import argparse
import random
import sys

import msgspec

from tests.conformance.edge_cases.families import FAMILIES
from tests.conformance.edge_cases.generation import derived_cases, fresh_cases


def main() -> None:
    """Write as many cases as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.edge_cases", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--fresh", type=int, default=0, metavar="N", help="cases of all families together")
    parser.add_argument("--derived", type=int, default=0, metavar="N", help="cases made of others, of both generators")
    parser.add_argument("--family", choices=FAMILIES, action="append", help="only this family; may be repeated")
    options = parser.parse_args()
    print(f"seed {options.seed}", file=sys.stderr)
    for case in fresh_cases(options.seed, options.fresh, options.family or FAMILIES):
        sys.stdout.buffer.write(msgspec.json.encode(case) + b"\n")
    for case in derived_cases(options.seed, options.derived):
        sys.stdout.buffer.write(msgspec.json.encode(case) + b"\n")


if __name__ == "__main__":
    main()

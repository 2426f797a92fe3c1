"""Compares the queueing hints with kube-scheduler's on new random cases: python -m tests.lockstep.hints [--pairs N].

With --golden, writes the golden cases and kube-scheduler's answers on them instead.
"""

import sys

from extender_service.config.release import NEWEST_MINOR, OLDEST_MINOR, version_of
from tests.lockstep.hints import golden
from tests.lockstep.hints.comparison import ask, differences, encoded
from tests.lockstep.hints.generator import EVENTS_PER_CASE, cases
from tests.lockstep.new_cases import first_seed, parser

BATCH = 200


def main() -> int:
    """Run the comparison; returns the exit status."""
    options = parser("hints", __doc__, "pairs", 20_000)
    options.add_argument("--golden", action="store_true")
    versions = {version_of(minor): minor for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1)}
    options.add_argument(
        "--emulated-version", choices=versions, default=version_of(OLDEST_MINOR), help="the release to follow"
    )
    args = options.parse_args()
    minor = versions[args.emulated_version]
    if args.golden:
        golden.make()
        return 0
    first = first_seed(args, "pairs")
    count = 0
    for batch in range(-(-args.count // (BATCH * EVENTS_PER_CASE))):
        made = list(cases(first + batch, BATCH, minor))
        found = differences(made, ask(encoded(made, minor), minor), minor)
        count += len(found)
        print("\n".join(found[:20]), end="\n" if found else "")
    print(f"{count} differences")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Run scenarios with kube-scheduler and with this program, and compare what users see.

python -m tests.e2e.scheduler.side_by_side [--pairs N] [--emulated-version 1.31|1.37] [SCENARIO ...]
"""

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

from extender_service.config.release import OLDEST_MINOR, parse_emulated_version
from tests.conformance import oracle
from tests.e2e.scheduler.side_by_side.catalogue import SCENARIOS
from tests.e2e.scheduler.side_by_side.running import DEFAULT_PAIRS, pairs_of_clusters, run
from tests.e2e.support.programs.control_plane import PROGRAMS
from tests.support import go_programs


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.scheduler.side_by_side", description=__doc__)
    parser.add_argument("--pairs", type=int, default=DEFAULT_PAIRS, help="of clusters, for scenarios at once")
    parser.add_argument(
        "--emulated-version",
        type=parse_emulated_version,
        default=OLDEST_MINOR,
        choices=PROGRAMS,
        dest="minor",
        help="with kube-scheduler and kube-apiserver of this release",
    )
    parser.add_argument("scenarios", nargs="*", help="all if none is named", metavar="SCENARIO")
    args = parser.parse_args()
    unknown = [name for name in args.scenarios if name not in SCENARIOS]
    if unknown:
        parser.error(f"no such scenarios: {', '.join(unknown)}; there are {', '.join(SCENARIOS)}")
    go_programs.build(oracle.ORACLES[args.minor])
    controlplane = go_programs.build(PROGRAMS[args.minor])
    ask_oracle = partial(oracle.ask, reference=oracle.Reference(args.minor))
    differing, placements, without_choice = 0, 0, 0
    with (
        tempfile.TemporaryDirectory() as directory,
        pairs_of_clusters(controlplane, Path(directory), args.pairs, minor=args.minor) as pairs,
    ):
        for name, comparison in run(pairs, ask_oracle, args.scenarios or SCENARIOS):
            by_chance = comparison.placements - comparison.without_choice
            told = f"{name}: {'differs' if comparison.differences else 'same'}, {by_chance} placements by chance"
            once = [f"only at first: {text}" for text in comparison.at_first if text not in comparison.differences]
            print("\n    ".join([told, *comparison.differences, *once]))
            differing += bool(comparison.differences)
            placements += comparison.placements
            without_choice += comparison.without_choice
    print(f"{placements} placements judged, {without_choice} of them with one best node; {differing} scenarios differ")
    if differing:
        sys.exit(1)


if __name__ == "__main__":
    main()

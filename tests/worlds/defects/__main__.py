"""Plant each defect in the product, and see after how many small worlds it is found.

    python -m tests.worlds.defects                      # all of them
    python -m tests.worlds.defects --only half-open     # those with this in their name

Prints a table in Markdown. Ends with 1 if one is not found.
"""

import argparse
import os
import sys

from tests.worlds.defects.planted import Defect, defects
from tests.worlds.defects.search import Search
from tests.worlds.finding.forked import Limits, cores

# Real time of a small world, which takes a second where nothing else runs.
_LIMIT_SECONDS = 600.0


def main() -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.worlds.defects",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", action="append", help="defects with this in their name; may be given again")
    parser.add_argument("--seed", type=int, default=1, help="the first (default %(default)d)")
    parser.add_argument("--seeds", type=int, default=500, help="worlds for each, at most (default %(default)d)")
    parser.add_argument("--seconds", type=float, default=36_000.0, help="real time for all (default %(default)g)")
    parser.add_argument("--jobs", type=int, default=cores(), help="worlds at once (default: %(default)d, the cores)")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # which histories depend on
        os.execve(sys.executable, [*sys.orig_argv], {**os.environ, "PYTHONHASHSEED": "0"})
    chosen = [each for each in defects() if any(part in each.name for part in options.only or [""])]
    search = Search(chosen, Limits(options.jobs, _LIMIT_SECONDS))
    for line in search.run(range(options.seed, options.seed + options.seeds), options.seconds):
        print(line, file=sys.stderr, flush=True)
    print("| defect | what it does | source | found after | reached in | by |\n| --- | --- | --- | ---: | ---: | --- |")
    print("\n".join(_row(each, search, options.seed) for each in chosen))
    print(f"\n{len(search.found)} of {len(chosen)} found")
    return int(len(search.found) < len(chosen))


def _row(defect: Defect, search: Search, first: int) -> str:
    found = search.found.get(defect.name)
    worlds = f"not in {search.worlds[defect.name]}" if found is None else str(found.seed - first + 1)
    by = "" if found is None else found.violation.split(": ")[0].split(" ", 1)[-1]
    return f"| {defect.name} | {defect.what} | {defect.source} | {worlds} | {search.reached[defect.name]} | {by} |"


if __name__ == "__main__":
    sys.exit(main())

"""Plant each defect in a copy of the product, and see after how many small worlds it is found.

    python -m tests.worlds.defects                      # all of them
    python -m tests.worlds.defects --only half-open     # those with this in their name

Prints a table in Markdown. Ends with 1 if one is not found.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.worlds.defects.planted import Defect, Found, defects, find, plant
from tests.worlds.finding.forked import cores


def main() -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.worlds.defects",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", help="defects with this in their name")
    parser.add_argument("--seed", type=int, default=1, help="the first (default %(default)d)")
    parser.add_argument("--seeds", type=int, default=500, help="worlds for each, at most (default %(default)d)")
    parser.add_argument("--seconds", type=float, default=900.0, help="real time for each (default %(default)g)")
    parser.add_argument("--jobs", type=int, default=cores(), help="worlds at once (default: %(default)d, the cores)")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # which histories depend on
        os.execve(sys.executable, [*sys.orig_argv], {**os.environ, "PYTHONHASHSEED": "0"})
    rows, missed = [], 0
    for defect in [each for each in defects() if options.only in each.name]:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="defect-") as folder:
            plant(defect, Path(folder))
            found = find(
                defect,
                Path(folder),
                first=options.seed,
                worlds=options.seeds,
                seconds=options.seconds,
                jobs=options.jobs,
            )
        missed += found is None
        rows.append(_row(defect, found, options.seed))
        print(f"{time.monotonic() - started:.0f} s: {rows[-1]}", file=sys.stderr, flush=True)
    print("| defect | what it does | source | found after | by |\n| --- | --- | --- | ---: | --- |")
    print("\n".join(rows))
    print(f"\n{len(rows) - missed} of {len(rows)} found")
    return int(missed > 0)


def _row(defect: Defect, found: Found | None, first: int) -> str:
    worlds = "not found" if found is None else str(found.seed - first + 1)
    by = "" if found is None else found.violation.split(": ")[0].split(" ", 1)[-1]
    return f"| {defect.name} | {defect.what} | {defect.source} | {worlds} | {by} |"


if __name__ == "__main__":
    sys.exit(main())

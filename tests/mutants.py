"""What came of the mutants: a table of modules, and the diffs of those that survived.

    make mutants                          # changes the code and runs the tests, which takes about an hour
    python -m tests.mutants               # the table of the last run, finished or not
    python -m tests.mutants --survivors   # and each change that no test noticed

Ends with 1 if more than a tenth survived.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

MUTANTS = Path("mutants")
AIM = 0.10

# mutmut's exit codes of the tests (mutmut/stats.py); every other one says that a test or the process failed.
SURVIVED, NO_TESTS, CAUGHT_BY_TYPES, NOT_CHECKED = 0, 33, 37, None
TIMED_OUT = {-24, 24, 36, 152, 255}


def outcome(code: int | None) -> str:
    """What one mutant's exit code means."""
    if code is NOT_CHECKED:
        return "not run"
    if code in (SURVIVED, NO_TESTS):
        return "survived"
    if code == CAUGHT_BY_TYPES:
        return "types"
    return "time-out" if code in TIMED_OUT else "tests"


def outcomes() -> dict[str, dict[str, str]]:
    """By module, what came of each of its mutants."""
    found = {}
    for path in sorted(MUTANTS.rglob("*.py.meta")):
        codes = json.loads(path.read_text())["exit_code_by_key"]
        if codes:
            found[str(path.relative_to(MUTANTS)).removesuffix(".meta")] = {name: outcome(codes[name]) for name in codes}
    return found


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--survivors", action="store_true", help="show the changes that no test noticed")
    options = parser.parse_args()
    found = outcomes()
    if not found:
        sys.exit(f"nothing in {MUTANTS}/: run `make mutants`")

    columns = ("types", "tests", "time-out", "survived", "not run")
    print(f"{'module':44}{'mutants':>9}" + "".join(f"{column:>10}" for column in columns) + f"{'survived':>10}")
    total: Counter[str] = Counter()
    for module, named in found.items():
        counted = Counter(named.values())
        total += counted
        print(row(module.removeprefix("extender_service/"), counted, columns))
    print(row("all", total, columns))

    if options.survivors:
        for named in found.values():
            for name, what in named.items():
                if what == "survived":
                    subprocess.run([sys.executable, "-m", "mutmut", "show", name], check=True)
    sys.exit(share(total) > AIM)


def row(name: str, counted: Counter[str], columns: tuple[str, ...]) -> str:
    """One line of the table."""
    numbers = "".join(f"{counted[column]:>10}" for column in columns)
    return f"{name:44}{counted.total():>9}{numbers}{share(counted):>10.1%}"


def share(counted: Counter[str]) -> float:
    """How many of those that were tried survived."""
    return counted["survived"] / max(1, counted.total() - counted["not run"])


if __name__ == "__main__":
    main()

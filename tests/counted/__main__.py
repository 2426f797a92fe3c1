"""Count the bytecodes that decisions, calls and events execute, beside their budgets: python -m tests.counted."""

import argparse
import sys

from tests.counted import budgets
from tests.counted.cases import CASES


def main() -> int:
    """Print the counts, or make them the budgets; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.counted", description=__doc__)
    parser.add_argument("--update", action="store_true", help="make the counts the new budgets")
    update = parser.parse_args().update
    if update and sys.version_info[:2] != budgets.PYTHON:
        python = ".".join(map(str, budgets.PYTHON))
        command = f"scripts/uv run --isolated --python {python} python -m tests.counted --update"
        parser.error(f"budgets are for Python {python}: {command}")
    before = budgets.read()
    counts: budgets.Counts = {}
    is_fine = True
    print(f"{'case':44}{'nodes':>6}{'counted':>10}{'budget':>10}")
    for name, case in CASES.items():
        for nodes in case.sizes:
            count = counts.setdefault(name, {})[nodes] = budgets.counted(name, nodes)
            budget = before.get(name, {}).get(nodes)
            problem = "no budget" if budget is None else budgets.problem(count, budget)
            is_fine &= problem is None
            print(f"{name:44}{nodes:6}{count:10}{budget or '':10}  {problem or ''}")
    if update:
        budgets.write(counts)
        return 0
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main())

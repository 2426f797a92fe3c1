"""Which lines and branches of the scheduler small worlds reach, and how often each state change was seen.

    python -m tests.worlds.covered --seeds 200

Ends with 1 if a part is reached less than nine tenths, or a state change of the drawings was seen too seldom.
"""

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import coverage

from tests.worlds.covered.parts import PACKAGE, PARTS

# How much of each part is to be reached.
_LEAST_SHARE: Final = 0.9
# What no world can reach by right, as lines that end a clause or begin one, and why.
_OUT_OF_REACH: Final[Mapping[str, str]] = {
    r"raise (StartError|CredentialsError)\(": "a configuration is wrong, which unit tests of options try",
    r"if (duration <= 0|rules\.errors_back_off_apart and not backoff\.maximum_seconds):": "no configuration may say so",
    r"raise ValueError\(": "the product calls itself wrongly",
    r"if profile not in self\._hints:": "no pod without a profile comes into the queue",
    r"(except (QuantityError|msgspec\.ValidationError)\b|if new is None:\n +return \(\))": (
        "the API server stores no malformed amounts and leases"
    ),
    r"if server\.startswith\(.https:.\):": "TLS is outside of worlds",
    r"if under_way is None:": "only the test of a plugin binds outside of a program (testing/trial.py)",
    r"before = self\.cluster\.placements\.get\(uid\)\n +if before is not None:": "programs place no pod again",
    r"if state is None:\n +state = .*\n +run_pre_filter\(": "only tests of plugins score in the state of a decision",
    r"if self\.binder\.binding_of\(placement\.uid\) is not None:": "programs undo no binding that has begun",
    r"if run is None( or decision is None or decision\.chosen is None)?:": "the engine asks only where there is a run",
    r"if decision\.verdicts\.view\.name_at\(decision\.chosen\) !=": "programs place a pod of a run where it was chosen",
    r"except Exception as error:\n +# A bug that one pod meets": "only a defect of the product raises anything else",
    r"async def close\(self\) -> None:\n.+Wait until (bindings, deletions|all reports)": "simulations end so",
    r"(def (why_chosen|_comparison)\(|if explain is not None:)": "only simulations say why each node was chosen",
    r"def __iter__\(self\) -> Iterator\[str \| InFlightEvent\]:": "only the comparison with kube-scheduler lists these",
    r"else:\n +raise error\n": "bindings raise BindError alone",
}

# Lines that no world leaves in one of both directions, and why.
_ONE_WAY: Final[Mapping[str, str]] = {
    r"if self\.recorder is not None:": "programs record all durations; simulations and tests of plugins need not",
    r"case Failure\(\) as failure:": "an attempt has one of three outcomes",
    r"if placement\.reservation is not None:": "a program counts no pod on a node without Reserve",
    r"elif placement\.reservation is None or not .*has_reached_bind:": "programs undo no binding that has begun",
    r"if self\._resources is not None:": "programs report what pods request; simulations need not",
}


def main() -> int:
    """Print both; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.worlds.covered",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=1, help="the first (default %(default)d)")
    parser.add_argument("--seeds", type=int, default=200, help="worlds (default %(default)d)")
    parser.add_argument("--seconds", type=float, help="begin no more worlds after so much real time")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="at once (default %(default)d)")
    parser.add_argument("--least-changes", type=int, default=1000, help="of each kind (default %(default)d)")
    parser.add_argument("--missing", action="store_true", help="list the lines that no world reached")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # which histories depend on
        os.execve(sys.executable, [*sys.orig_argv], {**os.environ, "PYTHONHASHSEED": "0"})
    with tempfile.TemporaryDirectory(prefix="covered-") as folder:
        measured = coverage.Coverage(
            data_file=f"{folder}/data", data_suffix=True, branch=True, source=[str(PACKAGE)], config_file=False
        )
        measured.start()  # before the product is imported
        from tests.worlds.covered.small_worlds import run_small_worlds

        seeds = range(options.seed, options.seed + options.seeds)
        changes, worlds = run_small_worlds(seeds, options.jobs, measured, options.seconds)
        measured.stop()
        measured.save()
        measured.combine([folder])
        for rule in _OUT_OF_REACH:
            measured.exclude(rule)
        for rule in _ONE_WAY:
            measured.exclude(rule, which="partial")
        measured.json_report(outfile=f"{folder}/report.json")
        files = json.loads(Path(f"{folder}/report.json").read_text())["files"]
    by_path = {path.rpartition("extender_service/")[2]: found for path, found in files.items()}
    print(f"{worlds} worlds\n")
    is_reached = _print_parts(by_path, lists_missing=options.missing)
    return int(not (_print_changes(changes, worlds, options.least_changes) and is_reached))


def _print_parts(by_path: Mapping[str, Mapping[str, Any]], *, lists_missing: bool) -> bool:
    """Print how much of each part was reached; return whether that is enough of all of them."""
    is_enough = True
    print(f"{'part':40}{'lines':>14}{'branches':>14}{'out of reach':>14}")
    for part, beginnings in PARTS.items():
        found = {
            path: each for path, each in by_path.items() if path.startswith(beginnings) and path[-11:] != "__init__.py"
        }
        total: Counter[str] = Counter()
        for each in found.values():
            total.update(each["summary"])
        print(_row(part, total))
        is_enough = is_enough and min(_shares(total)) >= _LEAST_SHARE
        for path, each in found.items():
            if len(found) > 1 and min(_shares(each["summary"])) < _LEAST_SHARE:
                print(_row(f"  {path}", each["summary"]))
                if lists_missing:
                    print(f"    lines {each['missing_lines']}")
                    print(f"    branches {each['missing_branches']}")
    return is_enough


def _shares(summary: Mapping[str, float]) -> tuple[float, float]:
    """Return which shares of lines and of branches were reached."""
    lines, branches = summary["num_statements"], summary["num_branches"]
    return summary["covered_lines"] / max(1, lines), summary["covered_branches"] / branches if branches else 1.0


def _row(name: str, summary: Mapping[str, float]) -> str:
    lines, branches = _shares(summary)
    return f"{name:40}{lines:>14.1%}{branches:>14.1%}{summary['excluded_lines']:>14}"


def _print_changes(changes: Mapping[str, int], worlds: int, least: int) -> bool:
    """Print how often each state change was seen, in all and in a world on average; return whether each of the drawings
    was seen often enough."""
    from tests.worlds.covered.state_changes import PLACEMENT_CHANGES, QUEUE_CHANGES

    is_enough = True
    for title, drawn in (("placements", PLACEMENT_CHANGES), ("queue", QUEUE_CHANGES)):
        print(f"\n{title}")
        for change in drawn:
            count = changes.get(change, 0)
            is_enough = is_enough and count >= least
            print(f"  {change:52}{count:>10}{count / max(1, worlds):>10.1f}{'' if count >= least else '  too seldom'}")
    others = {change: count for change, count in changes.items() if change not in PLACEMENT_CHANGES + QUEUE_CHANGES}
    print("\nnot in the drawings")
    for change, count in sorted(others.items()):
        print(f"  {change:52}{count:>10}")
    return is_enough


if __name__ == "__main__":
    sys.exit(main())

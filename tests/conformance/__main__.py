"""Compare this project's verdicts with the reference's: python -m tests.conformance CASES.jsonl [VERDICTS.jsonl]."""

import argparse
import logging
import sys
from collections import Counter
from pathlib import Path

import msgspec

from tests.conformance import oracle
from tests.conformance.cases import read_cases, read_lines, read_verdicts
from tests.conformance.judgement import Judgement, judge
from tests.conformance.minimisation import differs_with, minimise


def main() -> int:
    """Print the counts per family, the first differences, and the sum; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("cases", type=Path, help="cases as tests/oracle/generate.py writes them; also .gz")
    parser.add_argument("verdicts", type=Path, nargs="?", help="the reference's verdicts; without them it is asked")
    parser.add_argument("--only", default="", metavar="PLUGIN[,PLUGIN]", help="compare what these plugins say")
    parser.add_argument("--show", type=int, default=5, metavar="N", help="print the first N cases that differ")
    parser.add_argument("--minimise", type=Path, metavar="FILE", help="write the first case that differs, made small")
    options = parser.parse_args()

    logging.disable(logging.WARNING)  # most cases name plugins that are not there yet, and say so at length
    lines = list(read_lines(options.cases))
    given = read_lines(options.verdicts) if options.verdicts else iter(oracle.ask(b"".join(lines)).splitlines())
    only = [name for name in options.only.split(",") if name]
    judgements = judge(read_cases(iter(lines)), read_verdicts(given), only)
    _report(judgements, options.show)
    if options.minimise:
        _minimise(lines, judgements, only, options.minimise)
    return 0 if judgements and all(judgement.agrees for judgement in judgements) else 1


def _minimise(lines: list[bytes], judgements: list[Judgement], only: list[str], to: Path) -> None:
    failed = next((line for line, judgement in zip(lines, judgements, strict=True) if not judgement.agrees), None)
    if failed is not None:
        to.write_bytes(msgspec.json.encode(minimise(msgspec.json.decode(failed), differs_with(only))) + b"\n")
        print(f"the first of them, made small, is in {to}")


def _report(judgements: list[Judgement], show: int) -> None:
    failed = [judgement for judgement in judgements if not judgement.agrees]
    for judgement in failed[:show]:
        print(f"{judgement.name}:")
        for difference in judgement.differences[:10]:
            print(f"  {difference}")
    counts: dict[str, Counter[bool]] = {}
    for judgement in judgements:
        counts.setdefault(judgement.family, Counter())[judgement.agrees] += 1
    for family, count in counts.items():
        print(f"{family}: {count[True]} passed, {count[False]} failed")
    print(f"{len(judgements) - len(failed)} passed, {len(failed)} failed")


if __name__ == "__main__":
    sys.exit(main())

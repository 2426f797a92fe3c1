"""Compare this project's verdicts with the reference's: python -m tests.conformance CASES.jsonl [VERDICTS.jsonl].

The reference is kube-scheduler v1.31.1, or the newest patch of the release that --emulated-version names.
"""

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from extender_service.config.release import parse_emulated_version
from tests.conformance import oracle
from tests.conformance.cases import read_lines, read_verdicts
from tests.conformance.judgement import Judgement, judge_lines
from tests.conformance.minimisation import differs_with, minimise

# How many cases are in memory at once.
SLICE = 500


class Failed(NamedTuple):
    """A case that differs."""

    line: bytes
    judgement: Judgement


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the counts per family, the first differences, and the sum; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument(
        "cases", type=Path, help="cases as the generators write them; also .gz, or - for standard input"
    )
    parser.add_argument("verdicts", type=Path, nargs="?", help="the reference's verdicts; without them it is asked")
    parser.add_argument("--only", default="", metavar="PLUGIN[,PLUGIN]", help="compare what these plugins say")
    parser.add_argument("--show", type=int, default=5, metavar="N", help="print the first N cases that differ")
    parser.add_argument("--minimise", type=Path, metavar="FILE", help="write the first case that differs, made small")
    parser.add_argument("--emulated-version", type=parse_emulated_version, default=oracle.OLDEST.minor)
    parser.add_argument("--feature-gates", default="", metavar="NAME=true|false,...", help="of that release")
    options = parser.parse_args(arguments)

    only = [name for name in options.only.split(",") if name]
    reference = oracle.Reference(options.emulated_version, options.feature_gates)
    counts: dict[str, Counter[bool]] = {}
    failed: list[Failed] = []
    chances: Counter[str] = Counter()
    for line, judgement in _judged(options.cases, options.verdicts, only, reference):
        counts.setdefault(judgement.family, Counter())[judgement.agrees] += 1
        chances.update(judgement.chances)
        if not judgement.agrees:
            failed.append(Failed(line, judgement))
    for reason, times in chances.items():
        print(f"left to chance, {times} times: {reason}")
    _report(counts, failed[: options.show])
    if options.minimise and failed:
        _minimise(failed[0].line, only, options.minimise, reference)
    return 0 if counts and not failed else 1


def _judged(
    cases: Path, verdicts: Path | None, only: Sequence[str], reference: oracle.Reference
) -> Iterator[tuple[bytes, Judgement]]:
    """Judge the cases slice by slice."""
    lines = read_lines(cases)
    given = None if verdicts is None else read_lines(verdicts)
    while taken := [line.strip() + b"\n" for line in islice(lines, SLICE)]:
        answers = oracle.ask(b"".join(taken), reference).splitlines() if given is None else islice(given, len(taken))
        yield from zip(taken, judge_lines(taken, read_verdicts(iter(answers)), only, reference.rules), strict=True)


def _minimise(line: bytes, only: Sequence[str], to: Path, reference: oracle.Reference) -> None:
    to.write_bytes(msgspec.json.encode(minimise(msgspec.json.decode(line), differs_with(only, reference))) + b"\n")
    print(f"the first of them, made small, is in {to}")


def _report(counts: dict[str, Counter[bool]], shown: Sequence[Failed]) -> None:
    for _, judgement in shown:
        print(f"{judgement.name}:")
        for difference in judgement.differences[:10]:
            print(f"  {difference}")
    for family, count in counts.items():
        print(f"{family}: {count[True]} passed, {count[False]} failed")
    total = sum(counts.values(), Counter())
    print(f"{total[True]} passed, {total[False]} failed")


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # some cases make plugins fail, and the log says so at length
    sys.exit(main())

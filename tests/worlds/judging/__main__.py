"""Lets kube-scheduler's own plugins judge decisions of worlds: `python -m tests.worlds.judging --decisions 1000`.

It runs worlds, seed by seed, until so many pods were left pending or preempted for, and judges all of them at once.
With `--mode`, the worlds have `serve`, and what is judged is its answers about preemption, one for each node.
"""

import argparse
import gc
import itertools
import sys

from tests.worlds.judging.answer_cases import AnsweredCase
from tests.worlds.judging.cases import WitnessedCase
from tests.worlds.judging.judged_answers import answered, judged_answers, summary_of_answers, verdicts_on
from tests.worlds.judging.judged_worlds import judged, summary, witnessed


def main() -> int:
    """Run and judge. Returns 1 if something differs, or did not hold in a world."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seed", type=int, default=1, help="the first")
    arguments.add_argument("--decisions", type=int, default=1000)
    arguments.add_argument("--minutes", type=float, default=5.0, help="simulated, of each world")
    arguments.add_argument("--mode", choices=("beside", "replace"))
    options = arguments.parse_args()
    gc.disable()  # a world collects garbage at set steps
    wrong, told = _judge_answers(options) if options.mode else _judge_decisions(options)
    for line in wrong:
        print(line)
    print(f"{told}: {len(wrong)} differ")
    return int(bool(wrong))


def _judge_decisions(options: argparse.Namespace) -> tuple[list[str], str]:
    cases: list[WitnessedCase] = []
    wrong: list[str] = []
    skipped = 0
    for seed in itertools.count(options.seed):
        world = witnessed(seed, options.minutes)
        cases += world.cases
        skipped += world.skipped
        wrong += (f"seed {seed}: {line}" for line in world.violations)
        if len(cases) >= options.decisions:
            break
    wrong += judged(cases)
    return wrong, f"seeds {options.seed} to {seed}: {summary(cases)}, {skipped} not written down"


def _judge_answers(options: argparse.Namespace) -> tuple[list[str], str]:
    cases: list[AnsweredCase] = []
    wrong: list[str] = []
    skipped = 0
    for seed in itertools.count(options.seed):
        world = answered(seed, options.minutes, options.mode)
        cases += world.cases
        skipped += world.skipped
        wrong += (f"seed {seed}: {line}" for line in world.violations)
        if len(cases) >= options.decisions:
            break
    verdicts = verdicts_on(cases)
    wrong += judged_answers(cases, verdicts)
    told = f"seeds {options.seed} to {seed}: {summary_of_answers(cases, verdicts)}, {skipped} calls not written down"
    return wrong, told


if __name__ == "__main__":
    sys.exit(main())

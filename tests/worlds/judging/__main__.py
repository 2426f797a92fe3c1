"""Lets kube-scheduler's own plugins judge decisions of worlds: `python -m tests.worlds.judging --decisions 1000`.

It runs worlds, seed by seed, until so many pods preempted others, and so many were left pending. What is judged is what
`schedule` decided, or with `--mode preempting` what `serve` did. In its other modes, answers of `serve` about
preemption are judged, one for each node.
"""

import argparse
import gc
import itertools
import sys
from typing import Final

from tests.worlds.judging.answer_cases import AnsweredCase
from tests.worlds.judging.judged_answers import answered, judged_answers, summary_of_answers, verdicts_on
from tests.worlds.judging.judged_worlds import Tally, are_too_many, judged, plain_world, rich_world, witnessed

_KINDS: Final = {"plain": plain_world, "rich": rich_world}
_ANSWERS: Final = ("beside", "replace")
_TOO_MANY: Final = "more than a fifth could not be written down"


def main() -> int:
    """Run and judge. Returns 1 if something differs, did not hold in a world, or too little could be judged."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seed", type=int, default=1, help="the first")
    arguments.add_argument(
        "--decisions", type=int, default=1000, help="so many preemptions, and pods left pending; or so many answers"
    )
    arguments.add_argument("--minutes", type=float, default=5.0, help="simulated, of each world")
    arguments.add_argument("--mode", choices=(*_ANSWERS, "preempting"))
    options = arguments.parse_args()
    gc.disable()  # a world collects garbage at set steps
    wrong, told = _judge_answers(options) if options.mode in _ANSWERS else _judge_decisions(options)
    for line in wrong:
        print(line)
    print(f"{told}: {len(wrong)} problems")
    return int(bool(wrong))


def _judge_decisions(options: argparse.Namespace) -> tuple[list[str], str]:
    tally = Tally()
    wrong: list[str] = []
    for seed in itertools.count(options.seed):
        for kind, scenario_of in _KINDS.items():
            world = witnessed(scenario_of(seed, options.minutes, options.mode))
            tally.add(world)
            wrong += (f"{kind} world of seed {seed}: {line}" for line in (*world.violations, *judged(world.cases)))
        if tally.has(options.decisions):
            break
    if tally.skipped_too_many:
        wrong.append(_TOO_MANY)
    return wrong, f"seeds {options.seed} to {seed}: {tally}"


def _judge_answers(options: argparse.Namespace) -> tuple[list[str], str]:
    cases: list[AnsweredCase] = []
    wrong: list[str] = []
    calls = skipped = 0
    for seed in itertools.count(options.seed):
        world = answered(seed, options.minutes, options.mode)
        cases += world.cases
        calls += world.calls
        skipped += world.skipped
        wrong += (f"seed {seed}: {line}" for line in world.violations)
        if len(cases) >= options.decisions:
            break
    verdicts = verdicts_on(cases)
    wrong += judged_answers(cases, verdicts)
    if are_too_many(skipped, calls):
        wrong.append(_TOO_MANY)
    told = f"seeds {options.seed} to {seed}: {summary_of_answers(cases, verdicts)}, {skipped} calls not written down"
    return wrong, told


if __name__ == "__main__":
    sys.exit(main())

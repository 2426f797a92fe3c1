"""The worlds whose coverage is measured: small ones of `schedule`, and of `serve` in each mode."""

import math
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from random import Random
from typing import Protocol

import msgspec

from extender_service.config.release import NEWEST_MINOR, OLDEST_MINOR
from tests.worlds.clusters.draft import POOL, draw_newer
from tests.worlds.covered.binding_themes import BINDING_THEMES, draw_newer_theme
from tests.worlds.covered.state_changes import counted
from tests.worlds.finding.forked import Limits, forked
from tests.worlds.finding.small_worlds import NO_THEME, THEMES, Theme
from tests.worlds.finding.world_run import run_world
from tests.worlds.scenarios import Mode, Scenario
from tests.worlds.settings.program_settings import draw_wanted

# Half of the worlds have `schedule` alone.
_MODES: Sequence[Mode | None] = (None, "beside", None, "replace", None, "preempting")
_LIMIT_SECONDS = 600.0
# Half of the worlds have faults that happen together, which reaches what one of them alone does not. Some have none, as
# runs of pods alike end where much happens between them; and where the scheduler asks extenders, or looks at some nodes
# only, there are none. In some of these, plugins say other things of one pod of a run than of the one before.
_THEME_RATE = 0.5
# Some have faults that happen together while pods are being bound.
_BINDING_RATE = 0.35
_CALM_RATE = 0.3
_CALM_RATE_OF_SERVE = 0.1
_CALM = (
    Theme("", wanted="bursts pod-affinity replica-sets spread"),
    Theme("", wanted="batches jobs"),
    Theme("", wanted="batches bursts fickle jobs replica-sets spread"),
    Theme("", wanted="bursts deadlines fickle pod-affinity replica-sets spread"),
)
_NOT_CALM = frozenset(("cancels", "late-extender", "lost-extender", "odd-extender", "picky-extender", "sampling"))
# Worlds with many nodes take long, so they have fewer pods.
_POOL_RATE = 0.03
_PODS, _PODS_IN_POOL = 100, 40


class Measurement(Protocol):
    """The measurement of coverage, which goes on in forked processes."""

    def stop(self) -> None:
        """End it in this process."""

    def save(self) -> None:
        """Write down what this process has reached."""


def run_small_worlds(
    seeds: Sequence[int], jobs: int, measured: Measurement, seconds: float | None = None
) -> tuple[Counter[str], int]:
    """Run a world for each seed; return how often each state change was seen, and in how many worlds that was.

    Begins no more after so many seconds of real time, if given. Names worlds that fail.
    """
    ends_at = math.inf if seconds is None else time.monotonic() + seconds

    def run(seed: int) -> bytes:
        with counted() as changes:
            end, _ = run_world(small_world(seed))
        for violation in end.violations[:1]:
            print(f"seed {seed}: {violation}", file=sys.stderr)
        measured.stop()
        measured.save()
        return msgspec.json.encode(changes)

    total, worlds = Counter[str](), 0
    in_time = takewhile(lambda _: time.monotonic() < ends_at, seeds)
    for ended in forked(in_time, run, Limits(jobs, _LIMIT_SECONDS)):
        if ended.answer is None:
            print(f"seed {ended.task}: {ended.why}", file=sys.stderr)
        else:
            total.update(msgspec.json.decode(ended.answer, type=dict[str, int]))
            worlds += 1
    return total, worlds


def small_world(seed: int) -> Scenario:
    """Return the world of a seed."""
    random = Random(f"covered world {seed}")
    theme = random.choice(THEMES) if random.random() < _THEME_RATE else NO_THEME
    if random.random() < _BINDING_RATE:
        theme = random.choice(BINDING_THEMES)
    theme = draw_newer_theme(seed) or theme
    wanted, mode = draw_wanted(random) | draw_newer(seed), _MODES[seed % len(_MODES)]
    if is_calm := random.random() < (_CALM_RATE if mode is None else _CALM_RATE_OF_SERVE):
        theme = random.choice(_CALM)
        wanted -= _NOT_CALM
    if random.random() < _POOL_RATE:
        wanted |= {POOL}
    scenario = Scenario(
        seed,
        minutes=10.0,
        replicas=random.choice((1, 2, 2, 2)),
        nodes=5,
        pods=_PODS_IN_POOL if POOL in wanted else _PODS,
        has_others=True,
        wanted=wanted.union(theme.wanted.split()),
        has_faults=not is_calm,
        fault_kinds=frozenset(theme.faults.split()),
        mode=mode,
        # Most rules that differ between releases came with one of these.
        minor=random.choice((OLDEST_MINOR, NEWEST_MINOR, random.randint(OLDEST_MINOR, NEWEST_MINOR))),
    )
    return replace(scenario, replicas=1) if scenario.wants_pair else scenario

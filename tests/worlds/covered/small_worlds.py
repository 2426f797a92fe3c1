"""The worlds whose coverage is measured: small ones of `schedule`, and of `serve` in both modes."""

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import msgspec

from extender_service.config.release import NEWEST_MINOR, OLDEST_MINOR
from tests.worlds.covered.state_changes import counted
from tests.worlds.finding.forked import Limits, forked
from tests.worlds.finding.world_run import run_world
from tests.worlds.scenarios import Mode, Scenario

# Two of four worlds have `schedule` alone.
_MODES: Sequence[Mode | None] = (None, None, "beside", "replace")
_LIMIT_SECONDS = 600.0


class Measurement(Protocol):
    """The measurement of coverage, which goes on in forked processes."""

    def stop(self) -> None:
        """End it in this process."""

    def save(self) -> None:
        """Write down what this process has reached."""


def run_small_worlds(seeds: Sequence[int], jobs: int, measured: Measurement) -> Counter[str]:
    """Run a world for each seed, and return how often each state change was seen. Names worlds that fail."""

    def run(seed: int) -> bytes:
        with counted() as changes:
            end, _ = run_world(small_world(seed))
        for violation in end.violations[:1]:
            print(f"seed {seed}: {violation}", file=sys.stderr)
        measured.stop()
        measured.save()
        return msgspec.json.encode(changes)

    total: Counter[str] = Counter()
    for ended in forked(seeds, run, Limits(jobs, _LIMIT_SECONDS)):
        if ended.answer is None:
            print(f"seed {ended.task}: {ended.why}", file=sys.stderr)
        else:
            total.update(msgspec.json.decode(ended.answer, type=dict[str, int]))
    return total


def small_world(seed: int) -> Scenario:
    """Return the world of a seed."""
    mode = _MODES[seed % len(_MODES)]
    # Hints and events in flight are of newer releases alone.
    minor = NEWEST_MINOR if seed % 3 == 0 else OLDEST_MINOR
    return Scenario(
        seed, minutes=10.0, replicas=2, nodes=5, pods=100, has_others=True, has_faults=True, mode=mode, minor=minor
    )

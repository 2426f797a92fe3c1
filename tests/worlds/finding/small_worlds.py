"""Small worlds: a few nodes and pods for a few minutes, so that many seeds can be run in little time."""

from collections.abc import Sequence
from random import Random
from typing import Final

from tests.worlds.scenarios import Mode, Scenario

# Half of the worlds have faults of one theme only, which happen together more often so.
_THEMES: Final[Sequence[str]] = (
    # who leads
    "cut cut-answers drift freeze hang kill set-wall-clock sleep slow-answers stall",
    # writes that fail, or whose answer is lost or late
    (
        "cut-answers fail fail-afterwards full kill-at-work read-only refusing-webhook reset-within-answer slow "
        "slow-answers slow-network slow-webhook"
    ),
    # watches that end, lag or fall silent
    "close-connections compact cut-answers forget-versions lag lose-connections reset-connections stop",
    # nodes that go and come
    "kill label-burst lag no-nodes slow-network",
    # etcd from a backup, at a version that comes a second time
    "restore-revision",
)


def small_world(seed: int, mode: Mode | None = None) -> Scenario:
    """Return the small world of a seed, with `serve` if a mode is given.

    Sizes and faults are drawn, too: some defects show among few pods only, others where nodes are full (swarm testing).
    """
    random = Random(f"small world {seed}")
    has_theme = random.random() < 0.5
    return Scenario(
        seed,
        minutes=random.choice((3.0, 4.0, 4.0, 6.0)),
        replicas=random.choice((1, 2, 2, 2)),
        nodes=random.randint(1, 5),
        pods=random.choice((8, 15, 30)),
        has_others=random.random() < 0.8,
        has_faults=has_theme or random.random() < 0.8,
        fault_kinds=frozenset(random.choice(_THEMES).split() if has_theme else ()),
        mode=mode,
    )

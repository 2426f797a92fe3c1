"""Small worlds: a few nodes and pods for a few minutes, so that many seeds can be run in little time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from extender_service.config.release import NEWEST_MINOR, OLDEST_MINOR
from tests.worlds.scenarios import Mode, Scenario


@dataclass(frozen=True)
class Theme:
    """Faults that happen together, and the actors, features and sizes of a cluster in which they matter."""

    faults: str
    wanted: str = ""
    most_nodes: int = 5
    pods: tuple[int, ...] = (8, 15, 30)
    minutes: tuple[float, ...] = (3.0, 4.0, 4.0, 6.0)


# Most worlds have faults of one theme only, which happen together more often so.
_THEME_RATE: Final = 0.75
THEMES: Final[Sequence[Theme]] = (
    # who leads
    Theme("cut cut-answers drift freeze freeze-at-work hang kill set-wall-clock sleep slow-answers stall"),
    # leaders that stop at work, and go on when another one may lead
    Theme("freeze-at-work", pods=(15, 30, 30)),
    # writes that fail or are late
    Theme("fail full kill-at-work read-only refusing-webhook slow slow-network slow-webhook"),
    # writes whose answer is lost
    Theme(
        "close-within-answer cut-answers fail-afterwards reset-within-answer slow-answers",
        wanted="deletions",
        pods=(15, 30, 30),
    ),
    # watches that end, lag or fall silent
    Theme(
        "close-connections compact cut-answers forget-versions lag lose-connections reset-connections stop",
        wanted="deletions",
    ),
    # watches that do not show for long what was bound
    Theme("stale-cache", pods=(30,), minutes=(8.0,)),
    # nodes that go and come, while pods wait for room
    Theme("kill label-burst lag no-nodes slow-network", wanted="autoscaler machine-troubles scarcity"),
    # etcd from a backup, at a version that comes a second time
    Theme("restore-revision"),
    # pods that make room for others, which fails
    Theme(
        "fail fail-afterwards read-only refusing-webhook",
        wanted="deletions priorities scarcity",
        most_nodes=3,
        pods=(15, 30, 30),
    ),
    # pods that make room for others, and go meanwhile
    Theme(
        "freeze-at-work slow slow-network slow-webhook",
        wanted="deletions priorities same-names scarcity",
        most_nodes=3,
        pods=(15, 30, 30),
    ),
    # pods that go while programs are late to know or to ask
    Theme("cut-requests freeze reorder slow-network", wanted="deletions same-names", pods=(15, 30, 30)),
)
NO_THEME: Final = Theme("")


def small_world(seed: int, mode: Mode | None = None, wanted: frozenset[str] = frozenset()) -> Scenario:
    """Return the small world of a seed, with `serve` if a mode is given, and with what is `wanted` besides.

    Sizes and faults are drawn, too: some defects show among few pods only, others where nodes are full (swarm testing).
    Where `serve` is to work only with the scheduler on its machine, there is one replica.
    """
    random = Random(f"small world {seed}")
    theme = random.choice(THEMES) if random.random() < _THEME_RATE else NO_THEME
    scenario = Scenario(
        seed,
        minutes=random.choice(theme.minutes),
        replicas=random.choice((1, 2, 2, 2)),
        nodes=random.randint(1, theme.most_nodes),
        pods=random.choice(theme.pods),
        has_others=bool(theme.wanted) or random.random() < 0.8,
        wanted=wanted.union(theme.wanted.split()),
        has_faults=theme is not NO_THEME or random.random() < 0.8,
        fault_kinds=frozenset(theme.faults.split()),
        minor=random.choice((OLDEST_MINOR, OLDEST_MINOR, NEWEST_MINOR)),
        mode=mode,
    )
    return replace(scenario, replicas=1) if scenario.wants_pair else scenario

"""The plan of a world's faults: data, drawn from the seed before the world runs, and carried out as it runs.

A plan can be printed, shortened and given again: `Scenario(faults=...)` carries out that plan.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from tests.worlds.faults.surroundings import Surroundings

# A seed has a fault every so many seconds, between these.
_OFTEN_SECONDS: Final = 4.0
_SELDOM_SECONDS: Final = 60.0
# Within a seed, a kind is up to so many times as frequent as its share, or as rare.
_UNEVEN: Final = 4.0


@dataclass(frozen=True)
class Fault:
    """A fault of a kind, which hits a target from `at` on for so many seconds, in the world's time.

    `seconds` is 0 for what happens in a moment, such as a kill. What `amount` means depends on the kind.
    """

    at: float
    kind: str
    target: str
    seconds: float = 0.0
    amount: float = 0.0

    @property
    def until(self) -> float:
        """When it ends."""
        return self.at + self.seconds

    def __str__(self) -> str:
        lasts = f" for {self.seconds:g} s" if self.seconds else ""
        return f"{self.kind} {self.target}{lasts}" + (f" ({self.amount:g})" if self.amount else "")


Plan = tuple[Fault, ...]
End = Callable[[], None]


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault.

    - `targets`: what it may hit in a world; nothing if it cannot happen there
    - `begin`: lets it happen; returns what ends it, or None for what has no end
    - `seconds`, `amount`: how long it lasts and how strong it is, by chance
    - `is_drawn`: whether seeds have it; if not, only plans that are given have
    """

    name: str
    targets: Callable[[Surroundings], Sequence[str]]
    begin: Callable[[Surroundings, Fault], End | None]
    seconds: Callable[[Random], float] = lambda _: 0.0
    amount: Callable[[Random], float] = lambda _: 0.0
    is_drawn: bool = True


def draw_plan(kinds: Sequence[FaultKind], surroundings: Surroundings, until: float) -> Plan:
    """Return a plan by the world's seed, in order of time. All faults end by a time, in the world's seconds.

    Which kinds a seed has and how often each happens is by chance, too: some seeds have one kind, some have all. So
    kinds that hide the effect of others are missing in some. (Groce et al., Swarm Testing, 2012.)
    """
    random = surroundings.world.random("which faults")
    share = random.random() ** 2
    every_seconds = _SELDOM_SECONDS * (_OFTEN_SECONDS / _SELDOM_SECONDS) ** random.random()
    possible = [kind for kind in kinds if kind.is_drawn and kind.targets(surroundings)]
    chosen = [kind for kind in possible if random.random() < share] or [random.choice(possible)]
    faults: list[Fault] = []
    for kind in chosen:
        mean_seconds = every_seconds * len(chosen) * _UNEVEN ** random.uniform(-1.0, 1.0)
        draws = surroundings.world.random(f"faults of the kind {kind.name}")
        at = draws.expovariate(1 / mean_seconds)
        while at < until:
            faults.append(_draw(kind, surroundings, at, until, draws))
            at += draws.expovariate(1 / mean_seconds)
    return tuple(sorted(faults, key=lambda fault: fault.at))


def _draw(kind: FaultKind, surroundings: Surroundings, at: float, until: float, random: Random) -> Fault:
    """Draw a fault, in numbers that its text shows in full."""
    target = random.choice(kind.targets(surroundings))
    at = round(at, 3)
    seconds = min(kind.seconds(random), until - at)
    return Fault(at, kind.name, target, round(seconds, 3), round(kind.amount(random), 3))


def carry_out(plan: Plan, kinds: Sequence[FaultKind], surroundings: Surroundings) -> None:
    """Let the faults of a plan happen as their times come. Raises KeyError for a kind that there is not."""
    by_name = {kind.name: kind for kind in kinds}
    for fault in plan:
        begin = partial(_begin, by_name[fault.kind], fault, surroundings)
        surroundings.world.timeline.call_at(fault.at, begin)


def _begin(kind: FaultKind, fault: Fault, surroundings: Surroundings) -> None:
    surroundings.world.trace.write("fault", str(fault))
    end = kind.begin(surroundings, fault)
    if end is not None:
        surroundings.world.timeline.call_at(fault.until, partial(_end, fault, end, surroundings))


def _end(fault: Fault, end: End, surroundings: Surroundings) -> None:
    surroundings.world.trace.write("fault", f"{fault.kind} {fault.target} ends")
    end()

"""Makes faults happen to the service, and looks each time whether it has recovered."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tests.faults.faults import FAULTS
from tests.faults.scene import Scene

# Promised: so long after a fault's end, the cache equals the API server.
RECOVERED_WITHIN_SECONDS = 10.0
# Looked on for so long, to tell what it came to.
_GIVEN_UP_AFTER_SECONDS = 60.0
# Of one fault's complaints, so many are printed.
_MOST_TOLD = 20


@dataclass
class Outcome:
    """What became of a fault; `oldest_seconds` is the age of the oldest state that a decision was seen to use."""

    fault: str
    times: int = 0
    recovered: int = 0
    longest_seconds: float = 0.0
    oldest_seconds: float = 0.0
    complaints: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return self.recovered == self.times and not self.complaints


def run(
    scene: Scene,
    faults: Iterable[str],
    times: int,
    progress: Callable[[str], None],
    *,
    within_seconds: float = RECOVERED_WITHIN_SECONDS,
) -> list[Outcome]:
    """Make each fault happen so many times, in a random order. The service has to recover in `within_seconds`."""
    outcomes = {fault: Outcome(fault) for fault in faults}
    order = [fault for fault in outcomes for _ in range(times)]
    scene.random.shuffle(order)
    for number, fault in enumerate(order, 1):
        outcome = outcomes[fault]
        scene.wait(0.0, 0.15)
        scene.callers.oldest_seconds = 0.0
        seconds, differences = _happen(scene, fault, within_seconds)
        outcome.times += 1
        outcome.recovered += seconds <= within_seconds
        outcome.longest_seconds = max(outcome.longest_seconds, seconds)
        outcome.oldest_seconds = max(outcome.oldest_seconds, scene.callers.oldest_seconds)
        complaints = [*differences, *scene.complaints()]
        outcome.complaints += complaints
        progress(f"{number}/{len(order)} {fault}: recovered after {seconds:.1f} s")
        for complaint in complaints[:_MOST_TOLD]:
            progress(f"    {complaint}")
    return list(outcomes.values())


def _happen(scene: Scene, fault: str, within_seconds: float) -> tuple[float, list[str]]:
    """Return the seconds from a fault's end until the cache was seen to be equal, and what differed after too long."""
    scene.hits = 0
    FAULTS[fault](scene)
    ended_at = time.monotonic()
    scene.wait(0.0, 0.15)
    late: list[str] = []
    with scene.quiet():
        while True:
            asked_at = time.monotonic()
            differences = scene.differences()
            seconds = asked_at - ended_at
            if not differences:
                return seconds, late
            if seconds > within_seconds:
                late = late or differences
            if seconds > _GIVEN_UP_AFTER_SECONDS:
                return float("inf"), late
            time.sleep(0.1)


def table(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """A line for each fault."""
    yield f"{'fault':22}{'times':>7}{'recovered':>11}{'longest recovery':>18}{'oldest state used':>19}"
    for outcome in outcomes:
        yield (
            f"{outcome.fault:22}{outcome.times:7}{outcome.recovered:11}{outcome.longest_seconds:16.1f} s"
            f"{outcome.oldest_seconds:17.1f} s{'' if outcome.is_good else '  FAILED'}"
        )

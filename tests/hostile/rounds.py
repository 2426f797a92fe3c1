"""One attack after the other on one service, with a neighbour beside, and what that cost."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.hostile import pods
from tests.hostile.attacks import Attack, attacks, is_decided_about
from tests.hostile.neighbour import Neighbour
from tests.hostile.subject import MIB, Subject


@dataclass(frozen=True)
class Result:
    """What came of an attack: memory is that of the service, beyond what it had before."""

    attack: str
    seconds: float
    neighbour_seconds: float
    peak_mib: float
    kept_mib: float
    answer: str
    faults: tuple[str, ...] = ()

    def problem(self, memory_mib: float, neighbour_seconds: float) -> str:
        """What is not as it should be, if anything."""
        if self.faults:
            return f"FAULT: {self.faults[0]}"
        if self.neighbour_seconds > neighbour_seconds:
            return f"SLOW: others waited {self.neighbour_seconds:.1f} s"
        if self.peak_mib > memory_mib:
            return f"LARGE: {self.peak_mib:.0f} MiB"
        return ""


def run(directory: Path, nodes: int, connections: int, share: float, only: str = "") -> Iterator[Result]:
    """Attack; those attacks alone that have `only` in their name."""
    with Subject(directory, nodes) as subject:
        for name, attack in attacks(connections, share).items():
            if only in name:
                yield attempt(name, attack, subject)
    crowd = "quadratic affinity terms of running pods"
    if only in crowd:
        yield quadratic(directory, crowd, nodes, int(2_000 * share))


def attempt(name: str, attack: Attack, subject: Subject) -> Result:
    """Attack once."""
    before = subject.memory()
    subject.forget_peak()
    started = time.monotonic()
    with Neighbour(subject) as neighbour:
        try:
            answer, faults = attack(subject), []
        except (AssertionError, OSError) as error:
            answer, faults = "", [repr(error)]
        seconds = time.monotonic() - started
    subject.process.require_running()
    kept = (subject.memory() - before) / MIB
    peak = (subject.memory_peak() - before) / MIB
    # With more calls at once than are decided about, the ordinary one may be among those that are refused.
    faults += [fault for fault in neighbour.faults if "(--max-requests)" not in fault]
    return Result(name, seconds, neighbour.slowest, peak, kept, answer, tuple(faults))


def quadratic(directory: Path, name: str, nodes: int, count: int) -> Result:
    """Pods that run, with 200 terms each, and a pod with 1,000 that all of them may mind."""
    terms = 200
    with Subject(directory, nodes) as plain:
        before = plain.memory()
    started = time.monotonic()
    minding = [pods.running_with_terms(number, f"node-{number % nodes:05}", terms) for number in range(count)]
    with Subject(directory, nodes, more=minding) as subject:
        loaded = time.monotonic() - started
        with Neighbour(subject) as neighbour:
            answer = is_decided_about(pods.affinity_terms(1_000), subject)
        kept = (subject.memory() - before) / MIB
        peak = (subject.memory_peak() - before) / MIB
    answer = f"{count:,} pods with {terms} terms each, listed in {loaded:.0f} s; {answer}"
    return Result(name, time.monotonic() - started, neighbour.slowest, peak, kept, answer, tuple(neighbour.faults))

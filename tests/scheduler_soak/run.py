"""Runs a script with kube-scheduler and with `schedule` at the same time, each on a control plane of its own."""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from tests.e2e.support.api import API
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.whole_scheduler import start
from tests.e2e.support.waiting import wait_until
from tests.scheduler_soak import comparison
from tests.scheduler_soak.measures import Counts, Running
from tests.scheduler_soak.player import Player
from tests.scheduler_soak.script import Script, Size, write_script
from tests.soak import figures
from tests.soak.figures import Figure, Sample, as_lines
from tests.support.servers.free_ports import free_port

Program = Literal["kube-scheduler", "schedule"]

_SAMPLE_SECONDS = 5.0
_COUNT_SECONDS = 20.0
_REPORT_SECONDS = 60.0
# Memory has settled after 25 minutes: events are remembered for up to twelve, and freed every six.
_SETTLED_SECONDS, _SETTLED_SHARE = 1500.0, 0.55
_POLL_SECONDS = 0.25
_START_SECONDS = 60.0
_MOST_SETTLING_SECONDS = 120.0
# No pod waits for its turn or backs off for so long: also by the watch, nothing is under way.
_QUIET_SECONDS = 1.0
_LATE_SECONDS = 1.0


class Settings(NamedTuple):
    """How the schedulers are run: `programs` are the two that are compared; backoffs are in seconds."""

    hints: bool = False
    initial_backoff: int = 1
    max_backoff: int = 10
    programs: Sequence[Program] = ("kube-scheduler", "schedule")


@dataclass
class Outcome:
    """What was measured, what is wrong, and what else there is to print."""

    figures: list[Figure] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    report: list[str] = field(default_factory=list)


def run(
    controlplane: Path, directory: Path, size: Size, seed: int, settings: Settings, progress: Callable[[str], None]
) -> Outcome:
    """Run it, and judge. `controlplane` is the binary; `directory` is empty, its path short.

    `progress` gets lines while it runs, and all figures before a fresh kube-scheduler takes over.
    """
    script = write_script(size, seed)
    outcome = Outcome()
    # Another test run that builds a newer one removes this one from the cache.
    binary = directory / controlplane.name
    shutil.copy2(controlplane, binary)
    with ExitStack() as stack:
        # The kernel ends what these threads start when they end, so they last until the end.
        threads = stack.enter_context(ThreadPoolExecutor(len(settings.programs)))

        def begin(number: int) -> _Side:
            return _Side(stack, binary, directory / str(number), script, settings, settings.programs[number])

        sides = [*threads.map(begin, range(len(settings.programs)))]
        _play(sides, script, progress)
        progress("the script is over")
        _settle([side.running for side in sides])
        for side in sides:
            side.counts.append(side.running.counts())
        stock, ours = (side.counts for side in sides)
        outcome.figures += comparison.compare(stock, ours)
        for side in sides:
            outcome.figures += side.resources(size.seconds, is_judged=side is sides[-1])
        for side in sides:
            outcome.report.append(side.description())
            outcome.figures.append(side.late_changes())
        for line in as_lines(outcome.figures):
            progress(line)
        outcome.complaints += sides[-1].lost()
        outcome.complaints += sides[-1].forgotten()
    return outcome


class _Side:
    """One of the two: a control plane, its scheduler, and who plays the script.

    `samples` and `counts` are what was measured up to now.
    """

    def __init__(
        self,
        stack: ExitStack,
        controlplane: Path,
        directory: Path,
        script: Script,
        settings: Settings,
        program: Program,
    ) -> None:
        """Start all of it, until the scheduler has tried the pods that stay."""
        directory.mkdir()
        self._control_plane = stack.enter_context(ControlPlane(controlplane, directory))
        self._stack = stack
        self._script = script
        self._settings = settings
        self._program = program
        self.samples: list[Sample] = []
        self.counts: list[Counts] = []
        self.player = Player(self._api, script.changes)
        self._api.create(*script.basis)
        self.running = self._start(program)
        self._api.create(*script.standing_pods)
        wait_until(lambda: self.running.counts().attempts, "the first attempts", _START_SECONDS)

    @property
    def _api(self) -> API:
        return self._control_plane.api

    def _start(self, program: Program) -> Running:
        port = free_port()
        options = [
            f"--secure-port={port}",
            "--authorization-always-allow-paths=/healthz,/metrics",
            f"--feature-gates=SchedulerQueueingHints={str(self._settings.hints).lower()}",
        ]
        backoff = {
            "podInitialBackoffSeconds": self._settings.initial_backoff,
            "podMaxBackoffSeconds": self._settings.max_backoff,
        }
        if program == "schedule":
            process = start(self._control_plane, backoff, options=options, serves=True)
        else:
            process = self._control_plane.start_scheduler(backoff, verbosity=1, options=options)
        running = Running(program, process, port)
        self._stack.callback(running.end)
        wait_until(running.is_listening, f"{program} to serve", _START_SECONDS)
        return running

    def resources(self, seconds: float, *, is_judged: bool) -> Iterator[Figure]:
        """Yield figures of memory and processor time."""
        settled_at = min(_SETTLED_SECONDS, seconds * _SETTLED_SHARE)
        for figure in [*figures.memory(self.samples, settled_at), figures.processor(self.samples, seconds / 4)]:
            name = f"{self.running.name}: {figure.name}"
            yield Figure(name, figure.value, figure.aim, figure.is_fine) if is_judged else Figure(name, figure.value)

    def late_changes(self) -> Figure:
        """Return how many changes were not made by the clock. On a busy machine, that is so for both schedulers."""
        late = self.player.late_seconds
        count = sum(seconds > _LATE_SECONDS for seconds in late)
        name = f"{self.running.name}: changes more than {_LATE_SECONDS:g} s late, of all; the latest, s"
        return Figure(name, f"{count} of {len(late)}; {max(late):.1f}")

    def progress(self) -> str:
        """Return a few words about how far it is."""
        attempts = sum(self.counts[-1].attempts.values())
        return f"{self.running.name} {attempts} attempts, {self.samples[-1].resident_kib / 1024:.1f} MiB"

    def description(self) -> str:
        """Return what was done, and what is left."""
        pods = self._api.list_all("Pod")
        pending = [pod for pod in pods if not pod["spec"].get("nodeName")]
        gated = [pod for pod in pending if pod["spec"].get("schedulingGates")]
        return (
            f"{self.running.name}: answers to changes {dict(self.player.answers)}; in the end {len(pods)} pods, "
            f"{len(pending)} pending, {len(gated)} of them gated"
        )

    def lost(self) -> Iterator[str]:
        """Yield the pods that are not there, though the script leaves them and no event tells of their preemption."""
        events = self._api.list_all("Event", api_version="events.k8s.io/v1", field_selector="reason=Preempted")
        preempted = {event["regarding"]["name"] for event in events}
        for name in sorted(self._script.pods_left() - self._pods().keys() - preempted):
            yield f"{name} is gone, and was not preempted"

    def forgotten(self) -> Iterator[str]:
        """Let a fresh kube-scheduler take over, and yield the pods that it does not leave as they are."""
        before = self._pods()
        self.running.end()
        fresh = self._start("kube-scheduler")
        wait_until(lambda: fresh.counts().attempts, "the first attempts of a fresh kube-scheduler", _START_SECONDS)
        _settle([fresh])
        after = self._pods()
        for name, node in before.items():
            left = f"{self._program} left {name} on {node or 'no node'}; a fresh kube-scheduler"
            if name not in after:
                yield f"{left} deletes it"
            elif after[name] != node:
                yield f"{left} binds it to {after[name]}"

    def _pods(self) -> Mapping[str, str]:
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in self._api.list_all("Pod")}


def _play(sides: Sequence[_Side], script: Script, progress: Callable[[str], None]) -> None:
    """Play the script on all sides, and measure meanwhile."""
    began_at = time.monotonic()
    for side in sides:
        side.player.start(began_at)
    every = min(_SAMPLE_SECONDS, script.changes[-1].at_seconds / 40)
    count_at, report_at = _COUNT_SECONDS, _REPORT_SECONDS
    while any(side.player.is_playing() for side in sides):
        at = time.monotonic() - began_at
        for side in sides:
            side.samples.append(side.running.sample(at))
        if at >= count_at:
            count_at += _COUNT_SECONDS
            for side in sides:
                side.counts.append(side.running.counts())
        if at >= report_at:
            report_at += _REPORT_SECONDS
            progress(f"{at:5.0f} s: {'; '.join(side.progress() for side in sides)}")
        time.sleep(every)


def _settle(schedulers: Sequence[Running]) -> None:
    """Wait until no pod waits for its turn or backs off."""
    give_up_at = time.monotonic() + _MOST_SETTLING_SECONDS
    quiet_since, before = time.monotonic(), list[Counts]()
    while time.monotonic() - quiet_since < _QUIET_SECONDS:
        counts = [running.counts() for running in schedulers]
        if counts != before or any(running.waiting() for running in schedulers):
            before, quiet_since = counts, time.monotonic()
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"pods still wait for their turn after {_MOST_SETTLING_SECONDS} s")
        time.sleep(_POLL_SECONDS)

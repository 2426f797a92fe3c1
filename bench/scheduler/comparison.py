"""Runs the schedulers in turn, and prints how they compare."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.figures import Row, alternately
from bench.run import NEEDS_GO, Run
from bench.scheduler.api_servers import ApiServer, Site
from bench.scheduler.choice import Choice
from bench.scheduler.contestants import (
    CONTESTANTS,
    FLOOR,
    SCHEDULE,
    STOCK,
    STOCK_ALL_NODES,
    Launch,
    Start,
    profiled_schedule,
)
from bench.scheduler.judging import Judge
from bench.scheduler.measurement import MEASURED_SECONDS, Pace, measure
from bench.scheduler.real_server import real_site
from bench.scheduler.scenes import SCENES, Scene, at_rate, has_room
from bench.scheduler.stub_server import stub_site
from bench.scheduler.tables import Paces, compared
from extender_service.config.release import OLDEST_MINOR, version_of

_PREEMPTING_SECONDS = 300.0  # all pods preempt, with several writes for each, before the first one is bound
_SHOWN = 3  # of the placements of a measurement that kube-scheduler would not have made


def run(the: Run) -> None:
    """Compare once with 5,000 nodes and 1,000 pods, as part of all benchmarks: the whole comparison takes a day."""
    compare(replace(the, rounds=1), Choice() if the.quick else Choice(nodes=5000, pods=1000))


def compare(the: Run, choice: Choice) -> None:
    """Print a table for each cluster and workload."""
    if the.peers is None:
        the.report.note("scheduler", NEEDS_GO)
        return
    for server, node_count in choice.clusters(quick=the.quick):
        for name, make in SCENES.items():
            if name in (choice.workloads or SCENES) and has_room(name, server, node_count):
                title = f"{server} API server{_release(choice)}, {node_count} nodes, {name}"
                the.report.progress("scheduler", title)
                scene = make(node_count, choice.pod_count(quick=the.quick))
                if choice.rate is not None:
                    scene = at_rate(scene, choice.rate)
                try:
                    with _site(the, server, choice.minor, scene) as site:
                        rows = [*compared(_Series(the, choice, scene, site, title).paces())]
                        the.report.table("scheduler", f"{title}: {scene.wanted} pods", rows)
                except Exception as error:
                    the.report.failure("scheduler", f"{title}: no more of it is measured", error)


def _release(choice: Choice) -> str:
    return "" if choice.minor == OLDEST_MINOR else f" of {version_of(choice.minor)}"


@contextmanager
def _site(the: Run, server: str, minor: int, scene: Scene) -> Iterator[Site]:
    assert the.peers is not None
    with TemporaryDirectory(dir=the.directory) as directory:  # short names: it holds Unix sockets
        make = (
            partial(real_site, Path(directory), minor)
            if server == "real"
            else partial(stub_site, the.peers, Path(directory))
        )
        with make(scene) as site:
            yield site


@dataclass(frozen=True)
class _Series:
    """The measurements of one scene. A series of hours may end early, so each is written down as soon as it has ended.

    An error ends one measurement, not the series.
    """

    the: Run
    choice: Choice
    scene: Scene
    site: Site
    title: str

    def paces(self) -> Paces:
        """Measure each chosen program once a round."""
        cannot = {STOCK, STOCK_ALL_NODES} if self.scene.plugins else {FLOOR} if self.scene.workload.preempts else set()
        programs = [name for name in self.choice.programs or CONTESTANTS if name not in cannot]
        rounds = alternately(self.the.rounds, *(partial(self._pace, name) for name in programs))
        return dict(zip(programs, rounds, strict=True))

    def _pace(self, name: str) -> Pace | None:
        """Return the pace of a program, which counts also if tidying up fails; None if it was not measured."""
        pace: Pace | None = None
        try:
            with self.site() as server:
                pace = self._measure(name, server)
        except Exception as error:
            if pace is None:
                self._failure(f"{name} was not measured", error)
                self._line(name, None)
            else:
                self._failure(f"{name} was measured, but the API server was not tidied up", error)
        return pace

    def _measure(self, name: str, server: ApiServer) -> Pace:
        rate = self.choice.rate
        limit_seconds = _PREEMPTING_SECONDS if self.scene.workload.preempts else MEASURED_SECONDS
        if rate is not None:
            limit_seconds += self.scene.wanted / rate
        launch = Launch(server.kubeconfig, self.the.directory, self.scene.plugins, self.choice.minor)
        judge = Judge(server, self.scene, self.choice.minor) if name == SCHEDULE else None
        pace = measure(server, self.scene, self._start_of(name), launch, limit_seconds)
        self._line(name, pace)
        return pace if judge is None else self._judged(pace, judge, launch.placements)

    def _start_of(self, name: str) -> Start:
        if self.choice.profile is not None and name == SCHEDULE:
            return partial(profiled_schedule, profile=self.choice.profile)
        return CONTESTANTS[name]

    def _judged(self, pace: Pace, judge: Judge, placements: Path) -> Pace:
        try:
            judged, wrong = judge.judge(placements)
        except Exception as error:
            self._failure("the placements were not judged", error)
            return pace
        for why in wrong[:_SHOWN]:
            self._note(why)
        row: Row = {"program": SCHEDULE, "judged": judged, "worse": len(wrong)}
        self.the.report.line("scheduler", f"{self.title}: one judgement", row)
        return replace(pace, judged=judged, worse=len(wrong))

    def _line(self, name: str, pace: Pace | None) -> None:
        [row] = compared({name: [pace]})
        self.the.report.line("scheduler", f"{self.title}: one measurement", row)

    def _failure(self, what: str, error: Exception) -> None:
        self.the.report.failure("scheduler", f"{self.title}: {what}", error)

    def _note(self, text: str) -> None:
        self.the.report.note("scheduler", f"{self.title}: {text}")

"""Runs the schedulers in turn, and prints how they compare."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.figures import alternately
from bench.run import NEEDS_GO, Run
from bench.scheduler.api_servers import Site
from bench.scheduler.choice import Choice
from bench.scheduler.contestants import (
    CONTESTANTS,
    FLOOR,
    SCHEDULE,
    STOCK,
    STOCK_ALL_NODES,
    Launch,
    profiled_schedule,
)
from bench.scheduler.judging import Judge
from bench.scheduler.measurement import MEASURED_SECONDS, Pace, measure
from bench.scheduler.real_server import real_site
from bench.scheduler.scenes import SCENES, Scene, at_rate, has_room
from bench.scheduler.stub_server import stub_site
from bench.scheduler.tables import Paces, compared
from extender_service.config.release import OLDEST_MINOR, version_of

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
                with _site(the, server, choice.minor, scene) as site:
                    rows = [*compared(_in_turn(the, choice, scene, site, title))]
                the.report.table("scheduler", f"{title}: {scene.wanted} pods", rows)


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


def _in_turn(the: Run, choice: Choice, scene: Scene, site: Site, title: str) -> Paces:
    """Measure each chosen program once a round."""
    cannot = {STOCK, STOCK_ALL_NODES} if scene.plugins else {FLOOR} if scene.workload.preempts else set()
    programs = [name for name in choice.programs or CONTESTANTS if name not in cannot]

    def measured(name: str) -> Pace | None:
        pace = _measured(the, choice, scene, site, name)
        [row] = compared({name: [pace]})
        the.report.line("scheduler", f"{title}: one measurement", row)  # a series of hours may end early
        return pace

    rounds = alternately(the.rounds, *(partial(measured, name) for name in programs))
    return dict(zip(programs, rounds, strict=True))


def _measured(the: Run, choice: Choice, scene: Scene, site: Site, name: str) -> Pace | None:
    start = CONTESTANTS[name]
    if choice.profile is not None and name == SCHEDULE:
        start = partial(profiled_schedule, profile=choice.profile)
    limit_seconds = MEASURED_SECONDS + (0 if choice.rate is None else scene.wanted / choice.rate)
    with site() as server:
        launch = Launch(server.kubeconfig, the.directory, scene.plugins, choice.minor)
        judge = Judge(server, scene, choice.minor) if name == SCHEDULE else None
        pace = measure(server, scene, start, launch, limit_seconds)
        if judge is None or pace is None:
            return pace
        judged, wrong = judge.judge(launch.placements)
    for why in wrong[:_SHOWN]:
        the.report.note("scheduler", why)
    return replace(pace, judged=judged, worse=len(wrong))

"""Runs the schedulers in turn, and prints how they compare."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from bench.figures import Row, alternately, quantile
from bench.programs import Peers
from bench.run import NEEDS_GO, Run
from bench.scheduler.api_servers import stub_with
from bench.scheduler.choice import Choice
from bench.scheduler.contestants import CONTESTANTS, FLOOR, SCHEDULE, STOCK, STOCK_ALL_NODES, Start, profiled_schedule
from bench.scheduler.measurement import Pace, measure
from bench.scheduler.scenes import SCENES, Scene

Paces = Mapping[str, Sequence[Pace | None]]
"""What each program reached in each round. Rounds of all programs have the same order."""


def compare(the: Run, choice: Choice) -> None:
    """Print three tables for each cluster: what each program reached, its CPU time, and the ratios."""
    if the.peers is None:
        the.report.note("scheduler", NEEDS_GO)
        return
    for server, node_count in choice.clusters(quick=the.quick):
        pod_count = choice.pod_count(quick=the.quick)
        directory = the.directory / f"{server}{node_count}"
        directory.mkdir()
        programs = {name: start for name, start in CONTESTANTS.items() if name in (choice.programs or CONTESTANTS)}
        if choice.profile is not None and SCHEDULE in programs:
            programs[SCHEDULE] = partial(profiled_schedule, profile=choice.profile)
        found: dict[str, Paces] = {}
        for name, make in SCENES.items():
            if name in (choice.workloads or SCENES):
                the.report.progress("scheduler", f"{server}, {node_count} nodes, {name}")
                scene = make(node_count, pod_count)
                rounds = alternately(
                    the.rounds, *(partial(_on_stub, the.peers, scene, start, directory) for start in programs.values())
                )
                found[name] = dict(zip(programs, rounds, strict=True))
        title = f"{server} API server, {node_count} nodes, {pod_count} pods"
        the.report.table("scheduler", f"{title}: pods bound a second", [*_reached(found)])
        the.report.table("scheduler", f"{title}: processor time a pod", [*_taken(found)])
        if ratios := [*_ratios(found)]:
            the.report.table("scheduler", f"{title}: how they compare", ratios)


def _on_stub(peers: Peers, scene: Scene, start: Start, directory: Path) -> Pace | None:
    with stub_with(peers, directory, scene) as server:
        return measure(server, start, len(scene.workload.measured), directory)


def _reached(found: Mapping[str, Paces]) -> Iterator[Row]:
    for workload, paces in found.items():
        for program, of_rounds in paces.items():
            known = [pace for pace in of_rounds if pace is not None]
            rates = [pace.pods_a_second for pace in known]
            yield {
                "workload": workload,
                "program": program,
                "pods/s": quantile(rates, 0.5) if rates else None,
                "q1": quantile(rates, 0.25) if rates else None,
                "q3": quantile(rates, 0.75) if rates else None,
                "wait p50": quantile([pace.wait.p50 for pace in known], 0.5) if known else None,
                "wait p99": quantile([pace.wait.p99 for pace in known], 0.5) if known else None,
                "bound": min((pace.bound for pace in known), default=0),
                "events dropped": max((pace.events_dropped for pace in known), default=None),
                "other events": max((pace.other_events for pace in known), default=None),
            }


def _taken(found: Mapping[str, Paces]) -> Iterator[Row]:
    for workload, paces in found.items():
        for program, of_rounds in paces.items():
            known = [pace.cpu_milliseconds for pace in of_rounds if pace is not None]
            if known:
                medians = {name: quantile([each[name] for each in known], 0.5) for name in known[0]}
                yield {"workload": workload, "program": program, **medians, "all": sum(medians.values())}


def _ratios(found: Mapping[str, Paces]) -> Iterator[Row]:
    """Yield the quartiles of the ratios, each of two programs in one round."""
    for workload, paces in found.items():
        for peer in (STOCK, STOCK_ALL_NODES, FLOOR):
            if SCHEDULE in paces and peer in paces:
                pairs = zip(paces[SCHEDULE], paces[peer], strict=True)
                ratios = [mine.pods_a_second / its.pods_a_second for mine, its in pairs if mine and its]
                if ratios:
                    q1, median, q3 = (quantile(ratios, part) for part in (0.25, 0.5, 0.75))
                    of = f"{SCHEDULE} / {peer}"
                    yield {"workload": workload, "of": of, "q1": q1, "median": median, "q3": q3, "rounds": len(ratios)}

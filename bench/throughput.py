"""Pods bound a second by a real kube-scheduler on a real API server: python -m bench.throughput.

All programs share the machine, so the report also has the CPU time of each program for a pod.

Compares four ways to decide, on the same workloads:
- kube-scheduler's own plugins
- an extender that answers with one prepared node for each pod that fits any (`goextender /canned/1`), as an upper bound
- this service instead of the plugins, preemption included
- the configuration of deploy/second-scheduler: there, the service also binds
"""

import argparse
import asyncio
import os
import statistics
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml

from bench.figures import Row, alternately, at_least, quantile
from bench.programs import cpu_seconds, service
from bench.run import NEEDS_GO, Run, parser_of, run_parts
from bench.scheduler.more_workloads import replica_sets
from bench.workloads import NAMESPACE, PRIORITY_CLASS, Workload, churn, nodes, workloads
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.kube.resources.api_resources import PODS
from extender_service.kube.types.core import Pod
from tests.e2e.support.objects import Object
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.support import go_programs

_SETUPS = STOCK, ONE_NODE, REPLACE, DEPLOYED = "stock", "one node", "replace", "as deployed"
_REPLICA_SETS = "replica sets"
_WORKLOADS = [*(each.name for each in workloads(node_count=10, pod_count=1)), _REPLICA_SETS]
_ROOT = Path(__file__).parents[1]
_CONTROL_PLANE = _ROOT / "tests" / "e2e" / "controlplane"
_DEPLOYED = _ROOT / "deploy" / "second-scheduler" / "kube-scheduler.yaml"
_LIMIT_SECONDS = 180.0
_CHURN_SECONDS = 0.2  # scheduler_perf's interval of 1 s would hardly affect so short a run
_OF_STOCK = {  # the target: at least this share of stock's pods a second, with 5,000 nodes
    "topology spread": 2.0,
    "pod affinity": 2.0,
    "pod anti-affinity": 2.0,
    "unschedulable": 0.85,
    "churn": 0.85,
}


class Pace(NamedTuple):
    """Pods bound a second, and by program the milliseconds of CPU time for each of these pods."""

    pods_a_second: float
    milliseconds: Mapping[str, float]


Paces = Mapping[str, Sequence[Pace | None]]
"""What each setup reached in each round. None if it did not bind all pods in time."""


class Moment(NamedTuple):
    """A point in time, and the CPU time that each program has used until then."""

    at: float
    cpu_seconds: Mapping[str, float]

    @classmethod
    def now(cls, programs: Mapping[str, int]) -> "Moment":
        return cls(time.perf_counter(), {name: cpu_seconds(pid) for name, pid in programs.items()})


@dataclass(frozen=True)
class Choice:
    """Each field narrows the comparison; None leaves everything in."""

    nodes: int | None = None
    workloads: Sequence[str] | None = None
    setups: Sequence[str] | None = None

    def sizes(self, *, quick: bool) -> Iterator[tuple[int, int]]:
        """Yield the numbers of nodes and of pods of each cluster."""
        for node_count in ((200,) if quick else (1000, 5000)) if self.nodes is None else (self.nodes,):
            yield node_count, 200 if quick else 1000


def run(the: Run) -> None:
    """Compare everything in three rounds, as part of all benchmarks."""
    compare(replace(the, rounds=min(the.rounds, 3)), Choice())


def compare(the: Run, choice: Choice) -> None:
    """Print three tables for each size of the cluster: pods a second, their ratios, and the programs' CPU times."""
    if the.peers is None:
        the.report.note("throughput", NEEDS_GO)
        return
    for node_count, pod_count in choice.sizes(quick=the.quick):
        _measure(the, choice, node_count, pod_count)


def _measure(the: Run, choice: Choice, node_count: int, pod_count: int) -> None:
    assert the.peers is not None
    owners, replicas = replica_sets("web", pod_count)
    with ExitStack() as stack:
        files = the.directory / f"k{node_count}"
        files.mkdir()
        control_plane = stack.enter_context(ControlPlane(go_programs.build(_CONTROL_PLANE), files))
        control_plane.api.create(PRIORITY_CLASS, *nodes(node_count), *owners)
        options = [f"--kubeconfig={control_plane.kubeconfig}", "--mode=replace", "--preemption=service"]
        decider = stack.enter_context(service(the.directory, *options))
        canned = stack.enter_context(the.peers.canned())
        programs = {
            "API server": control_plane.api_server.pid,
            "etcd": control_plane.etcd.pid,
            "one node": canned.pid,
            "service": decider.pid,
            "bench": os.getpid(),
        }
        setups = {
            STOCK: _scheduler(),
            ONE_NODE: _extended(canned.url + "/canned/1"),
            REPLACE: _extended(decider.url),
            DEPLOYED: _as_deployed(decider.url),
        }
        paces: dict[str, Paces] = {}
        for workload in (*workloads(node_count, pod_count), Workload(_REPLICA_SETS, replicas)):
            if workload.name not in (choice.workloads or _WORKLOADS):
                continue
            if workload.preempts and node_count > 1000:
                continue  # scheduler_perf runs it with 500 nodes only: with 5,000, stock does not finish
            the.report.progress("throughput", f"{node_count} nodes, {workload.name}")
            chosen = [
                name
                for name in choice.setups or setups
                if not (workload.preempts and name == ONE_NODE)  # it never finds a node full, so it never preempts
            ]
            rounds = alternately(
                the.rounds, *(partial(_pace, control_plane, workload, setups[name], programs) for name in chosen)
            )
            paces[workload.name] = dict(zip(chosen, rounds, strict=True))
    title = f"{node_count} nodes, {pod_count} pods: pods bound a second"
    the.report.table("throughput", title, [*_rates(paces)])
    if compared := [*_compared(node_count, paces)]:
        the.report.table("throughput", f"{node_count} nodes: how they compare", compared)
    the.report.table("throughput", f"{node_count} nodes: processor time a pod", [*_taken(paces)])


def _rates(paces: Mapping[str, Paces]) -> Iterator[Row]:
    """Yield the medians of the workloads."""
    for name, of in paces.items():
        medians = {setup: _median(of[setup]) if setup in of else None for setup in _SETUPS}
        yield {"workload": name, **{setup: pace and pace.pods_a_second for setup, pace in medians.items()}}


def _compared(node_count: int, paces: Mapping[str, Paces]) -> Iterator[Row]:
    """Yield the ratios of the workloads, each of two measurements in one round: the median and the quartiles.

    Only `replace` has targets.
    """
    for name, of_setups in paces.items():
        for mine in (REPLACE, DEPLOYED):
            for peer, target in ((ONE_NODE, 0.85), (STOCK, _OF_STOCK.get(name) if node_count == 5000 else None)):
                if mine in of_setups and peer in of_setups:
                    pairs = zip(of_setups[mine], of_setups[peer], strict=True)
                    ratios = [my.pods_a_second / its.pods_a_second for my, its in pairs if my and its]
                    low, ratio, high = (quantile(ratios, share) if ratios else None for share in (0.25, 0.5, 0.75))
                    aim = target if mine == REPLACE else None
                    quartiles = {"q1": low, "q3": high}
                    yield {"workload": name, "of": f"{mine} / {peer}", **at_least("ratio", ratio, aim), **quartiles}


def _taken(paces: Mapping[str, Paces]) -> Iterator[Row]:
    for name, of_setups in paces.items():
        for setup, rounds in of_setups.items():
            pace = _median(rounds)
            if pace is not None:
                yield {"workload": name, "with": setup, **pace.milliseconds, "all": sum(pace.milliseconds.values())}


def _median(paces: Sequence[Pace | None]) -> Pace | None:
    known = [pace for pace in paces if pace is not None]
    if len(known) < len(paces):
        return None
    programs = known[0].milliseconds
    return Pace(
        statistics.median(pace.pods_a_second for pace in known),
        {program: statistics.median(pace.milliseconds[program] for pace in known) for program in programs},
    )


def _pace(
    control_plane: ControlPlane, workload: Workload, scheduler: Object, programs: Mapping[str, int]
) -> Pace | None:
    """Start kube-scheduler on a backlog of pods. Returns its pace from its first write to the last binding.

    None if it does not finish within the limit. `programs` are the process ids of the other programs to measure.
    """
    api = control_plane.api
    api.create(*workload.running)
    api.create(*workload.hopeless)
    api.create(*workload.measured)
    try:
        return asyncio.run(_watch_bindings(control_plane, workload, scheduler, programs))
    finally:
        api.delete(*api.list_all("Pod", namespace=NAMESPACE))


async def _watch_bindings(
    control_plane: ControlPlane, workload: Workload, scheduler: Object, programs: Mapping[str, int]
) -> Pace | None:
    pods = control_plane.api.path("Pod", NAMESPACE)
    version = control_plane.api.request("GET", pods, parameters={"limit": "1"})["metadata"]["resourceVersion"]
    waiting = {pod["metadata"]["name"] for pod in workload.measured}
    async with KubeClient(load_credentials(control_plane.kubeconfig)) as client:
        process = control_plane.start_scheduler(scheduler, verbosity=2)
        running = {"kube-scheduler": process.pid, **programs}
        try:
            with _churning(control_plane) if workload.churns else nullcontext():
                async with asyncio.timeout(_LIMIT_SECONDS):
                    return await pace_of(_changed(client, version), waiting, partial(Moment.now, running))
        except TimeoutError:
            process.require_running()
            return None
        finally:
            process.kill()


async def pace_of(changed: AsyncIterator[Pod], waiting: set[str], now: Callable[[], Moment]) -> Pace:
    """Return the pace from the first change of a pod until all that wait are bound. Empties `waiting`.

    The first change may be about a pod that fits nowhere, or about a victim: failed attempts and preemption count.
    """
    first = await anext(changed)
    begin = now()
    if first.spec.node_name:
        waiting.discard(first.metadata.name)  # its binding starts the clock
    count = len(waiting)
    while waiting:
        pod = await anext(changed)
        if pod.spec.node_name:
            waiting.discard(pod.metadata.name)
    end = now()
    taken = {name: seconds - begin.cpu_seconds[name] for name, seconds in end.cpu_seconds.items()}
    return Pace(count / (end.at - begin.at), {name: 1000 * seconds / count for name, seconds in taken.items()})


async def _changed(client: KubeClient, version: str) -> AsyncIterator[Pod]:
    """Yield each pod as often as a scheduler has changed it after `version`: it binds, or writes a status.

    Read fast: the API server ends the watch of a slow reader.
    """
    while True:
        async with client.watch(PODS, version, timeout_seconds=900) as events:
            async for event in events:
                version = event.object.metadata.resource_version
                if event.type == "MODIFIED":
                    yield event.object


@contextmanager
def _churning(control_plane: ControlPlane) -> Iterator[None]:
    is_over = threading.Event()

    def come_and_go() -> None:
        while not is_over.wait(_CHURN_SECONDS):
            made = control_plane.api.create(*churn())
            is_over.wait(_CHURN_SECONDS)
            control_plane.api.delete(*made)

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


_UNLIMITED: Mapping[str, Any] = MappingProxyType({"clientConnection": {"qps": 5000, "burst": 5000}})


def _scheduler() -> Object:
    return {**_UNLIMITED, "profiles": [{"schedulerName": "default-scheduler"}]}


def _extended(url: str) -> Object:
    """Return a configuration with an extender instead of the plugins for Filter, PostFilter and Score."""
    off: Object = {"disabled": [{"name": "*"}]}
    unbinding = {"disabled": [{"name": "VolumeBinding"}]}  # it fails without its filter
    extender = {"urlPrefix": url, "filterVerb": "filter", "nodeCacheCapable": True, "httpTimeout": "30s"}
    return {
        **_UNLIMITED,
        "percentageOfNodesToScore": 100,
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {
                    "preFilter": off,
                    "filter": off,
                    "postFilter": off,
                    "preScore": off,
                    "score": off,
                    "reserve": unbinding,
                    "preBind": unbinding,
                },
            }
        ],
        "extenders": [extender],
    }


def _as_deployed(url: str) -> Object:
    configuration: Object = yaml.safe_load(_DEPLOYED.read_text())
    del configuration["leaderElection"]
    configuration["profiles"][0]["schedulerName"] = "default-scheduler"
    configuration["extenders"][0]["urlPrefix"] = url
    return {**configuration, **_UNLIMITED}


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("python -m bench.throughput", __doc__)
    parser.add_argument("--nodes", type=int, help="a cluster of so many nodes (default: 1,000, then 5,000)")
    parser.add_argument("--workload", choices=_WORKLOADS, action="append", help="one workload; may be repeated")
    parser.add_argument("--setup", choices=_SETUPS, action="append", help="one way to decide; may be repeated")
    return parser


if __name__ == "__main__":
    options = _parser().parse_args()
    run_parts(options, [partial(compare, choice=Choice(options.nodes, options.workload, options.setup))])

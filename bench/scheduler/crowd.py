"""Measures `schedule` with a large cluster, and with many pods at once: python -m bench.scheduler.crowd.

On the stub API server, it reads 5,000 nodes and 150,000 running pods. Then 50,000 pods come, nine tenths of them with
one request while it binds the others. So there is always a pod to decide about, and nothing held up decisions for
longer than the longest time between two bindings, by its log. Memory is that of the process: a minute and a half after
it has read the cluster, when it has given back what it does not need; at the peak before, and at the peak while the
pods wait.
"""

import copy
import itertools
import re
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from bench import synthetic
from bench.figures import Row, at_most
from bench.programs import resident_mib
from bench.run import NEEDS_GO, Run, main
from bench.scheduler.api_servers import ApiServer
from bench.scheduler.contestants import CONTESTANTS, SCHEDULE, Launch
from bench.scheduler.scenes import Scene
from bench.scheduler.stub_server import stub_site
from bench.workloads import Workload
from tests.e2e.support.objects import Object
from tests.e2e.support.programs.processes import Process

_PODS_A_NODE = 30
_IN_A_REQUEST = 10_000  # of the running pods
_SETTLE_SECONDS = 90.0
_LIMIT_SECONDS = 300.0
_LOOK_SECONDS = 0.2
_BEFORE = 0.1  # of the pods: they are being bound when the others come
_BOUND = re.compile(r'time=(\S+)Z .* msg="bound a pod"')


def run(the: Run) -> None:
    """Print the memory, and how long decisions were held up."""
    if the.peers is None:
        the.report.note("crowd", f"the stub API server: {NEEDS_GO}")
        return
    nodes, pods = (100, 1_000) if the.quick else (5_000, 50_000)
    first, *crowd = [_pending(number) for number in range(pods + 1)]
    scene = Scene(Workload("crowd", [first]), [synthetic.node(number, 46) for number in range(nodes)])
    with stub_site(the.peers, the.directory, scene) as site, site() as server:
        running = [*_running(nodes)]
        for start in range(0, len(running), _IN_A_REQUEST):
            server.create(*running[start : start + _IN_A_REQUEST])
        # A sample holds all pods, so writing down those of 50,000 placements would take gigabytes.
        launch = Launch(server.kubeconfig, the.directory, samples=False)
        with CONTESTANTS[SCHEDULE](launch) as scheduler:
            rows = [*_measure(server, scheduler, crowd, 0.0 if the.quick else _SETTLE_SECONDS)]
    the.report.table("crowd", f"schedule, {nodes} nodes, {nodes * _PODS_A_NODE} running pods, {pods} at once", rows)


def _measure(server: ApiServer, scheduler: Process, crowd: list[Object], settle_seconds: float) -> Iterator[Row]:
    reading = _peak_until(server, scheduler, 1)
    time.sleep(settle_seconds)
    yield {"figure": "MiB, while it reads the cluster", **at_most("value", reading, None)}
    yield {"figure": "MiB, once it has", **at_most("value", resident_mib(scheduler.pid), 300)}
    before = int(len(crowd) * _BEFORE)
    server.create(*crowd[:before])
    _peak_until(server, scheduler, 2)
    server.create(*crowd[before:])
    waiting = _peak_until(server, scheduler, len(crowd) + 1)
    yield {"figure": "MiB, while they wait", **at_most("value", waiting, 600)}
    bound = [*_bindings(scheduler.log)][1:]
    longest = max(later - earlier for earlier, later in itertools.pairwise(bound))
    yield {"figure": "longest time between two bindings, ms", **at_most("value", 1000 * longest, 50)}
    yield {"figure": "pods a second", **at_most("value", (len(bound) - 1) / (bound[-1] - bound[0]), None)}


def _peak_until(server: ApiServer, scheduler: Process, bound: int) -> float:
    """Return the most MiB that the scheduler takes until so many pods are bound."""
    peak, end = 0.0, time.monotonic() + _LIMIT_SECONDS
    while server.counts().bound < bound:
        scheduler.require_running()
        if time.monotonic() > end:
            raise TimeoutError(f"{bound} pods are not bound after {_LIMIT_SECONDS:g} s")
        peak = max(peak, resident_mib(scheduler.pid))
        time.sleep(_LOOK_SECONDS)
    return peak


def _bindings(log: Path) -> Iterator[float]:
    """Yield when each pod was bound, in seconds."""
    for line in log.read_text().splitlines():
        found = _BOUND.match(line)
        if found:
            yield datetime.fromisoformat(found[1]).timestamp()


def _pending(number: int) -> Object:
    pod = copy.deepcopy(synthetic.pending_manifest("plain"))
    pod["metadata"] |= {"name": f"pending-{number}", "uid": f"pending-{number}"}
    pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "10m", "memory": "1Mi"}
    return {"apiVersion": "v1", "kind": "Pod", **pod}


def _running(nodes: int) -> Iterator[Object]:
    for pod in synthetic.running_pods(nodes, _PODS_A_NODE, unique_labels=False):
        pod["spec"].pop("volumes", None)
        yield {"apiVersion": "v1", "kind": "Pod", **pod}


if __name__ == "__main__":
    main("python -m bench.scheduler.crowd", __doc__, [run])

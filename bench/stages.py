"""Times the stages of filter calls by kube-scheduler's own cycle: python -m bench.stages.

The CPU's caches are then as cold as with a real kube-scheduler. In a loop of calls alone they would be warm.
"""

import json
import sys
from contextlib import ExitStack

from bench.figures import Times
from bench.programs import ALL_NODES, ClusterSize, Peers, service
from bench.run import NEEDS_GO, Run, main
from bench.staged_service import STAGES

_STOP_SECONDS = 30.0


def run(the: Run) -> None:
    """Print a table for each size of the cluster, of pods of a ReplicaSet."""
    if the.peers is None:
        the.report.note("stages", NEEDS_GO)
        return
    sizes = [ClusterSize(nodes, images=3) for nodes in ((500,) if the.quick else (500, 5000))]
    by_size = {size.nodes: _stages(the, the.peers, size) for size in sizes}
    rows = [
        {"stage": stage} | {f"{nodes} nodes": times[stage].p50 for nodes, times in by_size.items()}
        for stage, _, _ in STAGES
    ]
    the.report.table("stages", "a filter call in `replace`, asked by kube-scheduler's cycle; medians", rows)


def _stages(the: Run, peers: Peers, size: ClusterSize) -> dict[str, Times]:
    the.report.progress("stages", f"{size.nodes} nodes")
    file = the.directory / f"stages-{size.nodes}.json"
    with ExitStack() as stack:
        api = stack.enter_context(peers.api(size, "json"))
        program = (sys.executable, "-m", "bench.staged_service", file)
        options = (f"--master={api.url}", "--mode=replace")
        server = stack.enter_context(service(the.directory, *options, program=program))
        budget = 0.2 if the.quick else 2 * the.rounds
        peers.cycle(size, ALL_NODES, "-classes=plain-rs", f"-budget={budget}s", f"-extender={server.url}", "-replace")
        server.process.stop(_STOP_SECONDS)
    return {stage: Times.of(times) for stage, times in json.loads(file.read_text()).items()}


if __name__ == "__main__":
    main("python -m bench.stages", __doc__, [run])

"""Times kube-scheduler's scheduling cycle with this service instead of its plugins, and without: python -m bench.cycle.

Both run kube-scheduler's own SchedulePod (`kubecycle cycle`) on the same cluster, and score all nodes.
"""

from contextlib import ExitStack

from bench.figures import Times, alternately, compared, over_rounds
from bench.programs import ClusterSize, Peers, service
from bench.run import NEEDS_GO, Run, main

_TARGETS = {  # times faster than stock, by class of pods, with 500 and with 5,000 nodes
    "plain": {500: 1.0, 5000: 3.0},
    "plain-rs": {500: 2.0, 5000: 12.0},
    "spread": {500: 2.0, 5000: 12.0},
    "anti-affinity": {500: 2.0, 5000: 12.0},
    "pref-pod-affinity": {500: 1.3, 5000: 9.0},
}


def run(the: Run) -> None:
    """Print a table for each size of the cluster."""
    if the.peers is None:
        the.report.note("cycle", NEEDS_GO)
        return
    for nodes in (500,) if the.quick else (500, 5000):
        _compare(the, the.peers, ClusterSize(nodes, images=3))


def _compare(the: Run, peers: Peers, size: ClusterSize) -> None:
    the.report.progress("cycle", f"{size.nodes} nodes")
    with ExitStack() as stack:
        api = stack.enter_context(peers.api(size, "json"))
        server = stack.enter_context(service(the.directory, f"--master={api.url}", "--mode=replace"))

        def cycle(*options: str) -> dict[str, Times]:
            budget = 0.2 if the.quick else 1
            rows = peers.cycle(size, f"-classes={','.join(_TARGETS)}", f"-budget={budget}s", *options)
            return {row["class"]: Times(row["p50_ms"], row["p99_ms"]) for row in rows}

        replaced, stock = (
            over_rounds(rounds)
            for rounds in alternately(the.rounds, lambda: cycle(f"-extender={server.url}", "-replace"), cycle)
        )
    title = f"{size.nodes} nodes, {size.nodes * size.pods_per_node} pods; with the service in `replace`, stock"
    the.report.table(
        "cycle",
        title,
        [
            {"nodes": size.nodes, "class": name, **compared(replaced[name], stock[name], targets.get(size.nodes))}
            for name, targets in _TARGETS.items()
        ],
    )


if __name__ == "__main__":
    main("python -m bench.cycle", __doc__, [run])

"""Times kube-scheduler's scheduling cycle with this service instead of its plugins, and without: python -m bench.cycle.

All run kube-scheduler's own SchedulePod (`kubecycle cycle`) on the same cluster. The service decides about all nodes.
kube-scheduler's plugins are measured on all nodes, too ("stock 100 %"), and as it comes ("stock"): then it stops
filtering when it has found enough nodes, and scores only these.
"""

from contextlib import ExitStack
from functools import partial

from bench.figures import Times, alternately, compared, over_rounds
from bench.programs import ALL_NODES, SAMPLE, ClusterSize, Peers, service
from bench.run import NEEDS_GO, Run, main

_TARGETS = {  # times faster than stock on all nodes, by class of pods, with 500 and with 5,000 nodes
    "plain": {500: 1.0, 5000: 3.0},
    "plain-rs": {500: 2.0, 5000: 12.0},
    "spread": {500: 2.0, 5000: 12.0},
    "anti-affinity": {500: 2.0, 5000: 12.0},
    "pref-pod-affinity": {500: 1.3, 5000: 9.0},
}
_STOCK = {"stock 100 %": ALL_NODES, "stock": SAMPLE}


def run(the: Run) -> None:
    """Print a table for each size of the cluster."""
    if the.peers is None:
        the.report.note("cycle", NEEDS_GO)
        return
    for nodes in (500,) if the.quick else (500, 5000):
        the.report.progress("cycle", f"{nodes} nodes")
        size = ClusterSize(nodes, images=3)
        with ExitStack() as stack:
            api = stack.enter_context(the.peers.api(size, "json"))
            server = stack.enter_context(service(the.directory, f"--master={api.url}", "--mode=replace"))
            compare(the, the.peers, size, server.url)


def compare(the: Run, peers: Peers, size: ClusterSize, url: str) -> None:
    """Print a table of a cluster that the service at `url` knows: rows for each class of pods, one for each peer."""

    def cycle(percent: int, *options: str) -> dict[str, Times]:
        budget = 0.2 if the.quick else 1
        rows = peers.cycle(size, percent, f"-classes={','.join(_TARGETS)}", f"-budget={budget}s", *options)
        return {row["class"]: Times(row["p50_ms"], row["p99_ms"]) for row in rows}

    replaced, *stock = (
        over_rounds(rounds)
        for rounds in alternately(
            the.rounds,
            partial(cycle, ALL_NODES, f"-extender={url}", "-replace"),
            *(partial(cycle, percent) for percent in _STOCK.values()),
        )
    )
    the.report.table(
        "cycle",
        f"{size.nodes} nodes, {size.nodes * size.pods_per_node} pods; with the service in `replace`, stock",
        [
            {
                "nodes": size.nodes,
                "class": name,
                "peer": peer,
                **compared(replaced[name], times[name], targets.get(size.nodes) if percent == ALL_NODES else None),
            }
            for name, targets in _TARGETS.items()
            for (peer, percent), times in zip(_STOCK.items(), stock, strict=True)
        ],
    )


if __name__ == "__main__":
    main("python -m bench.cycle", __doc__, [run])

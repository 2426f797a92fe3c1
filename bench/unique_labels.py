"""Measures the cost of a unique label on each pod: python -m bench.unique_labels.

Compares memory and times of decisions with and without such labels, on the same cluster. Each runs in its own process.
"""

import json
import os
import statistics
import subprocess
import sys

from bench import clusters, synthetic
from bench.decision import decisions, default_engine
from bench.figures import Row
from bench.programs import resident_mib
from bench.run import Run, main

CLASSES = ("plain", "plain-rs", "spread", "anti-affinity", "pref-pod-affinity")
_PODS_PER_NODE = 30


def run(the: Run) -> None:
    """Print memory and times side by side."""
    nodes = 500 if the.quick else 5000
    shared, unique = (_in_process(nodes, labels) for labels in ("shared", "unique"))
    rows: list[Row] = [
        {"figure": name, "shared labels": value, "unique labels": unique[name], "ratio": unique[name] / value}
        for name, value in shared.items()
    ]
    title = f"{nodes} nodes, {nodes * _PODS_PER_NODE} pods, one in ten with an affinity term"
    the.report.table("unique labels", title, rows)


def _in_process(nodes: int, labels: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.unique_labels", "measure", str(nodes), labels]
    figures: dict[str, float] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return figures


def measure(nodes: int, *, unique: bool) -> dict[str, float]:
    """Return memory in MiB and median milliseconds of a decision, by figure."""
    before = resident_mib(os.getpid())
    cluster = synthetic.cluster(nodes, _PODS_PER_NODE, unique_labels=unique)
    engine = default_engine(cluster)
    clusters.settle()
    figures = {"memory of the cluster, MiB": resident_mib(os.getpid()) - before}
    for pod_class in CLASSES:
        times = decisions(engine, synthetic.pending_pod(pod_class), 0.5)
        figures[f"{pod_class}, ms"] = statistics.median(times)
    return figures


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        print(json.dumps(measure(int(sys.argv[2]), unique=sys.argv[3] == "unique")))
    else:
        main("python -m bench.unique_labels", __doc__, [run])

"""What it costs that every pod has a label of its own: python -m bench.unique_labels [--nodes 5000].

Memory and decisions of the same cluster with and without such labels, each in a process of its own.
"""

import argparse
import gc
import json
import resource
import statistics
import subprocess
import sys

from bench import synthetic
from bench.decision import decisions, default_profile

KINDS = ("plain", "plain-rs", "spread", "anti-affinity", "pref-pod-affinity")


def main() -> None:
    """Print memory and times side by side."""
    parser = argparse.ArgumentParser(prog="python -m bench.unique_labels", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods-per-node", type=int, default=30)
    parser.add_argument("--measure", choices=("shared", "unique"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.nodes, options.pods_per_node, unique=options.measure == "unique")))
        return
    size = [f"--nodes={options.nodes}", f"--pods-per-node={options.pods_per_node}"]
    shared, unique = (
        json.loads(
            subprocess.run(
                [sys.executable, "-m", "bench.unique_labels", *size, f"--measure={labels}"],
                stdout=subprocess.PIPE,
                check=True,
            ).stdout
        )
        for labels in ("shared", "unique")
    )
    pods = options.nodes * options.pods_per_node
    print(f"{options.nodes} nodes, {pods} pods, one in ten with an affinity term; shared labels, unique labels, ratio")
    for name, value in shared.items():
        print(f"{name:30} {value:10.2f} {unique[name]:10.2f} {unique[name] / value:6.2f}")


def measure(nodes: int, pods_per_node: int, *, unique: bool) -> dict[str, float]:
    """Memory in MiB and median milliseconds a decision."""
    before = _resident_mib()
    cluster = synthetic.cluster(nodes, pods_per_node, unique_labels=unique)
    profile = default_profile(cluster)
    gc.collect()
    gc.freeze()
    figures = {"memory of the cluster, MiB": _resident_mib() - before}
    for kind in KINDS:
        figures[f"{kind}, ms"] = statistics.median(decisions(profile, cluster, synthetic.pending_pod(kind), 0.5))
    return figures


def _resident_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()

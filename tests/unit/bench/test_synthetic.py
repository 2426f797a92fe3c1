"""The cluster that is made without Go is the one that the peers make."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bench import clusters, programs, synthetic
from bench.decision import default_profile
from bench.programs import ClusterSize, Peers
from extender_service.cluster.state.cluster import Cluster
from extender_service.kube.types.core import Pod
from extender_service.scheduling.asked_nodes import AllNodes
from extender_service.scheduling.decision import decide
from extender_service.scheduling.question import Question

SIZE = ClusterSize(120, pods_per_node=10, images=5)


@pytest.fixture(scope="module")
def peers(build_go: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Peers:
    for program in ("stubapi", "extload"):
        build_go(programs.PEERS / program)
    return Peers(tmp_path_factory.mktemp("peers"))


@pytest.fixture(scope="module")
def theirs(peers: Peers) -> Cluster:
    return clusters.load(peers, SIZE)


def totals(cluster: Cluster, pod: Pod) -> dict[str, int]:
    """The score of each node where the pod fits."""
    nodes = cluster.view(None)
    decision = decide(default_profile(cluster), Question(pod, AllNodes(nodes)))
    found = np.zeros(len(decision.feasible), np.int64) if decision.totals is None else decision.totals
    return {nodes.names[at]: int(total) for at, total in zip(decision.feasible, found, strict=True)}


@pytest.mark.parametrize("pod_class", [*synthetic.CLASSES, synthetic.PREEMPTOR])
def test_a_pod_fits_the_same_nodes_with_the_same_scores(peers: Peers, theirs: Cluster, pod_class: str) -> None:
    mine = clusters.load(None, SIZE)
    assert mine.node_names() == theirs.node_names()
    assert mine.pod_count == theirs.pod_count

    found = totals(mine, clusters.pending_pod(None, pod_class))

    assert found == totals(theirs, clusters.pending_pod(peers, pod_class))
    assert (len(found) > 0) == (pod_class != synthetic.PREEMPTOR)

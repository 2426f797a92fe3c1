"""The cluster of pods and nodes of which no two are alike."""

import itertools

from bench import synthetic, unlike
from bench.decision import cycles, default_engine


def test_no_two_nodes_offer_the_same_and_no_two_pods_request_the_same() -> None:
    made = unlike.manifests(50, 10)
    pods = [*made["pods"], *[pod for pods in made["pending"].values() for pod in pods]]

    assert len({str(node["status"]["allocatable"]) for node in made["nodes"]}) == 50
    assert len({str(pod["spec"]["containers"]) for pod in pods}) == len(pods)


def test_each_pending_pod_finds_a_node() -> None:
    made = unlike.manifests(50, 10)
    engine = default_engine(unlike.cluster(made))
    pending = unlike.pending_pods(made)

    assert set(pending) == set(synthetic.CLASSES)
    for pods in pending.values():
        assert len(cycles(engine, itertools.cycle(pods), 0)) == 20
    assert engine.cluster.pod_count == 500

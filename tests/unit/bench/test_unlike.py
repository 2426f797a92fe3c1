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

    for kind in synthetic.CLASSES:
        assert len(cycles(engine, unlike.pending_pods(kind), 0)) == 20
    assert engine.cluster.pod_count == 500


def test_no_pending_pod_comes_twice() -> None:
    listed = unlike.manifests(1, 1)["pending"]["spread"]
    more = itertools.islice(unlike.pending_manifests("spread"), 500)
    pods = [*listed, *more]
    assert len({str(pod["spec"]) for pod in pods}) == len({pod["metadata"]["name"] for pod in pods}) == len(pods)

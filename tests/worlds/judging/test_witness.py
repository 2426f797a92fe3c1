"""Which decisions of a world are written down, and what of each."""

from tests.worlds.judging.witness import Witness
from tests.worlds.scenarios import Mode, Scenario, ScheduledCluster


def run(nodes: int, pods: int, mode: Mode | None = None) -> tuple[ScheduledCluster, Witness]:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=1.0, nodes=nodes, pods=pods, mode=mode))
    witness = Witness(cluster.holds.observed)
    cluster.run()
    assert witness.caches.wrong == []
    return cluster, witness


def test_each_third_pod_that_is_placed_is_written_down_before_it_counts() -> None:
    cluster, witness = run(nodes=5, pods=12)
    nodes = {f"default/{pod['metadata']['name']}": pod["spec"]["nodeName"] for pod in cluster.pods()}
    assert [each.outcome for each in witness.decisions] == ["placed"] * 4
    assert witness.skipped == 0
    for each in witness.decisions:
        assert each.node == nodes[each.pod.key]
        assert each.pod.key not in {item.key for item, _ in each.known.counted}


def test_where_serve_decides_and_preempts_only_its_decisions_are_written_down() -> None:
    _, witness = run(nodes=1, pods=60, mode="preempting")
    assert {each.outcome for each in witness.decisions} == {"placed", "preempts", "pending"}
    assert {(each.who, each.reports) for each in witness.decisions} == {("service", False)}


def test_a_scheduler_reports_reasons_and_its_victims_are_those_of_the_node() -> None:
    _, witness = run(nodes=1, pods=60)
    assert {(each.who, each.reports) for each in witness.decisions} == {("replica-0", True)}
    preemptions = [each for each in witness.decisions if each.outcome == "preempts"]
    assert preemptions
    for each in preemptions:
        assert set(each.victims) <= {item.key for item, node in each.known.counted if node == each.node}

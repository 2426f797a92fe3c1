from dataclasses import replace
from typing import Any

from tests.worlds.api_server.kinds import NODES
from tests.worlds.faults.kinds import ALL_KINDS
from tests.worlds.faults.plan import Fault, carry_out
from tests.worlds.faults.trial import Trial

PATH = "/api/v1/nodes"


def nodes(trial: Trial) -> list[dict[str, Any]]:
    return [item.value for item in trial.servers.model.etcd.all(NODES)]


def test_all_nodes_go_and_come_again_with_other_uids() -> None:
    trial = Trial(Fault(1.0, "no-nodes", "cluster", seconds=3.0))
    for number in range(3):
        amounts = {"cpu": "4", "pods": "110"}
        trial.create(PATH, metadata={"name": f"node-{number}", "labels": {"a": "b"}}, status={"allocatable": amounts})
    before = nodes(trial)
    trial.world.run(2.0)
    assert nodes(trial) == []
    trial.world.run(5.0)
    after = nodes(trial)
    for was, now in zip(before, after, strict=True):
        assert (was["metadata"]["name"], was["metadata"]["labels"]) == (
            now["metadata"]["name"],
            now["metadata"]["labels"],
        )
        assert was["metadata"]["uid"] != now["metadata"]["uid"]
        assert was["status"]["allocatable"] == now["status"]["allocatable"]


def test_a_node_without_a_machine_does_not_come_again() -> None:
    trial = Trial()
    for name in ("node-0", "node-1"):
        trial.create(PATH, metadata={"name": name})
    surroundings = replace(trial.surroundings, has_machine=lambda name: name == "node-1")
    carry_out((Fault(1.0, "no-nodes", "cluster", seconds=3.0),), ALL_KINDS, surroundings)
    trial.world.run(5.0)
    assert trial.names(PATH) == ["node-1"]


def test_nodes_change_their_zone_many_times_and_are_back_in_the_end() -> None:
    trial = Trial(Fault(1.0, "label-burst", "cluster", seconds=2.0, amount=50.0))
    trial.create(PATH, metadata={"name": "node-0", "labels": {"topology.kubernetes.io/zone": "here"}})
    trial.create(PATH, metadata={"name": "node-1"})
    labels = [node["metadata"].get("labels") for node in nodes(trial)]
    changes: list[str] = []
    trial.servers.model.etcd.listeners.append(lambda _, change: changes.append(change.item.key))
    trial.world.run(2.0)
    assert len(changes) > 20
    assert [node["metadata"]["labels"] for node in nodes(trial)] != labels
    trial.world.run(4.0)
    assert [node["metadata"].get("labels") or None for node in nodes(trial)] == labels

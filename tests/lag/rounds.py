"""What is tried while watches are late: each round makes room for one pod, and measures when the pod gets it."""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tests.e2e.support.objects import Object, node, pod
from tests.lag.scene import LaggingScene

# Beyond the lag, the most seconds from the moment when a pod could run to its binding.
MOST_SECONDS = 2.0
_NODES = 6
# Every victim takes this long to end, once it has been asked to.
_ENDING_SECONDS = 3.0
_PORT = 8080


class Outcome(NamedTuple):
    """What became of a round: how long the pod waited, and how many running pods were asked to end."""

    seconds: float
    victims: int


def victim_ends(scene: LaggingScene) -> Outcome:
    """Low pods fill six nodes, and an important one preempts one of them, which takes a while to end."""
    nodes = [scene.new_name("node") for _ in range(_NODES)]
    scene.run(*map(node, nodes), *map(_low_pod, nodes))
    name = scene.new_name("high")
    scene.api.create(pod(name, requests={"cpu": "4"}, priorityClassName="high"))
    ended_at = 0.0
    asked_at: dict[str, float] = {}
    seconds = float("inf")
    until = time.monotonic() + 2 * scene.setting.lag_seconds + 15
    while time.monotonic() < until:
        now = time.monotonic()
        leaving = [found for found in scene.api.list_all("Pod") if "deletionTimestamp" in found["metadata"]]
        for found in leaving:
            if now - asked_at.setdefault(found["metadata"]["name"], now) > _ENDING_SECONDS:
                scene.api.delete(found)
                ended_at = ended_at or time.monotonic()
        if ended_at and scene.pod(name)["spec"].get("nodeName"):
            seconds = time.monotonic() - ended_at
            break
        time.sleep(0.02)
    return Outcome(seconds, len(asked_at))


def node_added(scene: LaggingScene) -> Outcome:
    """A pod is too large for every node, until a larger node is added."""
    scene.run(node(scene.new_name("node")))
    name = scene.new_name("large")
    scene.api.create(pod(name, requests={"cpu": "8"}))
    scene.wait_refused(name)
    scene.settle()
    scene.api.create(node(scene.new_name("node"), cpu="8"))
    return Outcome(scene.seconds_until_bound(name, time.monotonic()), 0)


def port_freed(scene: LaggingScene) -> Outcome:
    """A pod needs a host port that another one holds, until that one is gone."""
    node_name, name = scene.new_name("node"), scene.new_name("waiting")
    scene.run(node(node_name), pod("holder", nodeName=node_name, host_ports=[_PORT]))
    scene.api.create(pod(name, host_ports=[_PORT]))
    scene.wait_refused(name)
    scene.settle()
    scene.api.delete(scene.pod("holder"))
    return Outcome(scene.seconds_until_bound(name, time.monotonic()), 0)


def node_is_new(scene: LaggingScene) -> Outcome:
    """A low pod fills a node. An important pod comes right after another node, so nothing has to end for it.

    Now and then kube-scheduler itself sees the pod first, and would preempt without the service as well: then again.
    """
    while True:
        full, name = scene.new_name("node"), scene.new_name("high")
        scene.run(node(full), _low_pod(full))
        scene.api.create(node(scene.new_name("node")))
        scene.api.create(pod(name, requests={"cpu": "4"}, priorityClassName="high"))
        refusals: list[str] = []
        seconds = scene.seconds_until_bound(name, time.monotonic(), refusals)
        if not any(refusal.startswith("0/1 nodes are available") for refusal in refusals):
            asked_to_end = ["deletionTimestamp" in found["metadata"] for found in scene.api.list_all("Pod")]
            return Outcome(seconds, sum(asked_to_end))
        scene.clear()


ROUNDS: Mapping[str, Callable[[LaggingScene], Outcome]] = {
    "victim-ends": victim_ends,
    "node-added": node_added,
    "port-freed": port_freed,
    "node-is-new": node_is_new,
}
# Of each kind, how many running pods may be asked to end.
_MOST_VICTIMS = {"victim-ends": 1}


def complaints(scene: LaggingScene, kind: str, times: int, tell: Callable[[str], None]) -> list[str]:
    """Run rounds of a kind; returns what was wrong with them."""
    found = []
    for number in range(1, times + 1):
        outcome = ROUNDS[kind](scene)
        tell(f"{scene.setting}: {kind} {number}: {outcome.seconds:.2f} s, {outcome.victims} victims")
        if outcome.seconds > scene.setting.lag_seconds + MOST_SECONDS:
            found.append(f"{kind} {number}: the pod waited {outcome.seconds:.2f} s")
        if outcome.victims > _MOST_VICTIMS.get(kind, 0):
            found.append(f"{kind} {number}: {outcome.victims} victims")
        scene.clear()
    return found


def _low_pod(node_name: str) -> Object:
    """A pod that fills a node, and that takes as long to end as the test wants."""
    low: Object = {"priorityClassName": "low", "terminationGracePeriodSeconds": 600}
    return pod(f"low-on-{node_name}", nodeName=node_name, requests={"cpu": "4"}, **low)

"""What happens when in a soak: all changes of the cluster, with their times, from a seed.

The script depends on nothing that a scheduler does. A pod ends at its time, whether it has run or not.
"""

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.e2e.support.objects import Object
from tests.scheduler_soak import population

_NODE_CHANGES_A_SECOND = 1.5
_NODE_AWAY_SECONDS = (5.0, 20.0)
_NODE_CHANGED_SECONDS = (3.0, 10.0)
_POD_LIVES_SECONDS = (4.0, 60.0)
_GATED_SECONDS = (1.0, 15.0)
_CLAIM_LATE_SECONDS = (0.0, 8.0)
# Values repeat: a cache of label sets that fills up for hours could not be told from a leak.
_SHARE_RELABELLED, _LABEL_VALUES = 0.15, 20
# What frees a pod comes so long before its end at least, or not at all. If both came at once, the binding and the end
# would race, and the soak would count which scheduler is faster by milliseconds.
_LEAST_FREE_SECONDS = 1.0
# A pod that has succeeded is deleted so much later.
_SHARE_SUCCEEDING, _KEPT_SECONDS = 0.3, 3.0


class Size(NamedTuple):
    """How long, and how much. Visitors are nodes that come and go."""

    seconds: float
    pods_a_second: float = 5.0
    nodes: int = 24
    visitors: int = 4
    never_schedulable: int = 60
    always_gated: int = 10


class Change(NamedTuple):
    """One request to the API server, so many seconds after the beginning."""

    at_seconds: float
    method: str
    kind: str
    name: str
    body: Object
    subresource: str = ""


class Script(NamedTuple):
    """What is there before the scheduler, the pods that stay, and the changes in the order of their times."""

    basis: list[Object]
    standing_pods: list[Object]
    changes: list[Change]

    def pods_left(self) -> set[str]:
        """Return the names of the pods that are there in the end, unless they were preempted."""
        names = {pod["metadata"]["name"] for pod in self.standing_pods}
        of_pods = [change for change in self.changes if change.kind == "Pod"]
        names.update(change.name for change in of_pods if change.method == "POST")
        return names.difference(change.name for change in of_pods if change.method == "DELETE")


def write_script(size: Size, seed: int) -> Script:
    """Write the script of a seed."""
    chance = random.Random(seed)
    basis = [*population.PRIORITY_CLASSES, *population.standing_nodes(size.nodes)]
    pods = [*population.never_schedulable(size.never_schedulable), *population.always_gated(size.always_gated)]
    changes = [*_pods(size, chance), *_nodes(size, chance), *_visits(size, chance)]
    in_time = [change for change in changes if change.at_seconds < size.seconds]
    return Script(basis, pods, sorted(in_time, key=lambda change: change.at_seconds))


def _pods(size: Size, chance: random.Random) -> Iterator[Change]:
    number, comes_at = 0, 0.0
    while (comes_at := comes_at + chance.expovariate(size.pods_a_second)) < size.seconds:
        number += 1
        yield from _life(population.short_lived(number, chance), comes_at, chance)


def _life(pod: Object, comes_at: float, chance: random.Random) -> Iterator[Change]:
    name = pod["metadata"]["name"]
    ends_at = comes_at + chance.uniform(*_POD_LIVES_SECONDS)
    yield _create(comes_at, pod)
    if "schedulingGates" in pod["spec"]:
        freed_at = comes_at + chance.uniform(*_GATED_SECONDS)
        if freed_at + _LEAST_FREE_SECONDS < ends_at:
            yield _patch(freed_at, "Pod", name, {"spec": {"schedulingGates": None}})
    if chance.random() < _SHARE_RELABELLED:
        labels = {"changed": str(chance.randrange(_LABEL_VALUES))}
        yield _patch(chance.uniform(comes_at, ends_at), "Pod", name, {"metadata": {"labels": labels}})
    claimed_at = comes_at + chance.uniform(*_CLAIM_LATE_SECONDS)
    if population.waits_for_claim(pod) and claimed_at + _LEAST_FREE_SECONDS < ends_at:
        for wanted in population.volume_and_claim(name, chance.choice("abc")):
            yield _create(claimed_at, wanted)
            # No controller is there to say that they are not in use.
            without = {"metadata": {"finalizers": None}}
            yield _patch(ends_at + 1, wanted["kind"], name, without)
            yield _delete(ends_at + 2, wanted["kind"], name)
    if chance.random() < _SHARE_SUCCEEDING:
        yield Change(ends_at, "PATCH", "Pod", name, {"status": {"phase": "Succeeded"}}, "status")
        ends_at += _KEPT_SECONDS
    yield _delete(ends_at, "Pod", name)


def _nodes(size: Size, chance: random.Random) -> Iterator[Change]:
    """Change standing nodes for a while: one is not changed again before it is as it was."""
    free_at = dict.fromkeys((f"node-{number}" for number in range(size.nodes) if number % 10 != 9), 0.0)
    at = 0.0
    while (at := at + chance.expovariate(_NODE_CHANGES_A_SECOND)) < size.seconds:
        free = [name for name, since in free_at.items() if since < at]
        if not free:
            continue
        name, back_at = chance.choice(free), at + chance.uniform(*_NODE_CHANGED_SECONDS)
        free_at[name] = back_at
        disk = "ssd" if int(name.partition("-")[2]) % 2 else "hdd"
        there, back, subresource = chance.choice(_changes_of_node(disk))
        yield Change(at, "PATCH", "Node", name, there, subresource)
        yield Change(back_at, "PATCH", "Node", name, back, subresource)


def _changes_of_node(disk: str) -> list[tuple[Object, Object, str]]:
    taint = {"key": "maintenance", "effect": "NoSchedule"}
    return [
        ({"spec": {"unschedulable": True}}, {"spec": {"unschedulable": None}}, ""),
        ({"spec": {"taints": [taint]}}, {"spec": {"taints": None}}, ""),
        ({"metadata": {"labels": {"disk": "nvme"}}}, {"metadata": {"labels": {"disk": disk}}}, ""),
        ({"status": {"allocatable": {"cpu": "6"}}}, {"status": {"allocatable": {"cpu": "4"}}}, "status"),
        # What no pod depends on, as the heartbeats of a kubelet.
        ({"metadata": {"annotations": {"example.com/beat": "1"}}}, {"metadata": {"annotations": None}}, ""),
    ]


def _visits(size: Size, chance: random.Random) -> Iterator[Change]:
    """Pods on a node that goes stay there until they end."""
    for number in range(size.visitors):
        node, at = population.visiting_node(number), chance.uniform(*_NODE_AWAY_SECONDS) / 4
        while at < size.seconds:
            yield _create(at, node)
            at += chance.uniform(*_NODE_AWAY_SECONDS)
            yield _delete(at, "Node", node["metadata"]["name"])
            at += chance.uniform(*_NODE_AWAY_SECONDS)


def _create(at: float, wanted: Object) -> Change:
    return Change(at, "POST", wanted["kind"], wanted["metadata"]["name"], wanted)


def _patch(at: float, kind: str, name: str, patch: dict[str, Any]) -> Change:
    return Change(at, "PATCH", kind, name, patch)


def _delete(at: float, kind: str, name: str) -> Change:
    return Change(at, "DELETE", kind, name, {"gracePeriodSeconds": 0})

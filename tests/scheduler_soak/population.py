"""The nodes and the pods of the soak: pods that can never be scheduled, and short-lived ones of many kinds."""

import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.e2e.support.objects import Object, node, pod

ZONE, HOST = "zone", "kubernetes.io/hostname"
HIGH, HIGH_BUT_PATIENT = "high", "high-but-patient"
GATES = [{"name": "example.com/wait"}]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_POOL = {"key": "pool", "value": "own", "effect": "NoSchedule"}
# Labels that repeat, so that short-lived pods find others to be near to or apart from.
_APPS = 6

PRIORITY_CLASSES: list[Object] = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 100, **policy}
    for name, policy in ((HIGH, {}), (HIGH_BUT_PATIENT, {"preemptionPolicy": "Never"}))
]


def standing_nodes(count: int) -> list[Object]:
    """Nodes that stay, in three zones; every tenth is for pods that tolerate its taint."""
    return [_own_node(number) if number % 10 == 9 else _plain_node(f"node-{number}", number) for number in range(count)]


def visiting_node(number: int) -> Object:
    """A node that comes and goes, perhaps more than once."""
    return _plain_node(f"visitor-{number}", number)


def _plain_node(name: str, number: int) -> Object:
    return node(name, labels={ZONE: "abc"[number % 3], "disk": "ssd" if number % 2 else "hdd"})


def _own_node(number: int) -> Object:
    return node(f"node-{number}", labels={ZONE: "abc"[number % 3], "pool": "own"}, taints=[_POOL])


def never_schedulable(count: int) -> list[Object]:
    """Pods that no node of the soak is right for, rejected by one plugin after the other."""
    reasons: list[Object] = [
        {"requests": {"cpu": "64"}},
        {"requests": {"memory": "1Ti"}},
        {"nodeSelector": {"disk": "tape"}},
        {"nodeSelector": {"pool": "own"}},  # its taint is not tolerated
        {"affinity": {"podAffinity": {_REQUIRED: [_term("absent", ZONE)]}}},
        {"topologySpreadConstraints": [_spread("standing", "rack", "DoNotSchedule")]},
        {"volumes": [_claim("absent")]},
        {"nodeSelector": {"disk": "tape"}, "priorityClassName": HIGH},
    ]
    return [
        pod(f"never-{number}", labels={"app": "standing"}, **{"requests": _cpu(100), **reasons[number % len(reasons)]})
        for number in range(count)
    ]


def always_gated(count: int) -> list[Object]:
    """Pods whose gates stay."""
    return [pod(f"gated-{number}", requests=_cpu(100), schedulingGates=GATES) for number in range(count)]


def short_lived(number: int, chance: random.Random) -> Object:
    """A pod that comes for a while."""
    (kind,) = chance.choices([*_KINDS], [*_KINDS.values()])
    return kind(f"pod-{number}", f"app-{chance.randrange(_APPS)}", chance)


def waits_for_claim(found: Object) -> bool:
    """Whether a pod needs a claim of its own name."""
    return bool(found["spec"].get("volumes"))


def volume_and_claim(name: str, zone: str) -> Iterator[Object]:
    """Yield a volume of one zone, and the claim that is bound to it."""
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    in_zone = {"key": ZONE, "operator": "In", "values": [zone]}
    yield {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            **common,
            "capacity": {"storage": "1Gi"},
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name},
            "csi": {"driver": "disks.example.com", "volumeHandle": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [in_zone]}]}},
        },
    }
    yield {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {**common, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}},
    }


def _plain(name: str, app: str, chance: random.Random) -> Object:
    return _pod(name, app, chance.choice([250, 500, 1000]))


def _large(name: str, app: str, chance: random.Random) -> Object:
    return _pod(name, app, chance.choice([2500, 3500]))


def _zonal(name: str, app: str, chance: random.Random) -> Object:
    return _pod(name, app, 500, nodeSelector={ZONE: chance.choice("abc"), "disk": chance.choice(["ssd", "hdd"])})


def _rare(name: str, app: str, chance: random.Random) -> Object:
    """A pod for the nodes that are relabelled now and then."""
    return _pod(name, app, 250, nodeSelector={"disk": chance.choice(["nvme", "ssd"])})


def _tolerating(name: str, app: str, chance: random.Random) -> Object:
    selector = {"pool": "own"} if chance.random() < 0.5 else {}
    return _pod(name, app, 500, nodeSelector=selector, tolerations=[{"key": "pool", "operator": "Exists"}])


def _apart(name: str, app: str, chance: random.Random) -> Object:
    return _pod(name, app, 250, affinity={"podAntiAffinity": {_REQUIRED: [_term(app, HOST)]}})


def _near(name: str, app: str, chance: random.Random) -> Object:
    other = f"app-{chance.randrange(_APPS)}"
    rather = [{"weight": 10, "podAffinityTerm": _term(app, ZONE)}]
    return _pod(name, app, 250, affinity={"podAffinity": {_REQUIRED: [_term(other, HOST)], _PREFERRED: rather}})


def _even(name: str, app: str, chance: random.Random) -> Object:
    hard, soft = _spread(app, ZONE, "DoNotSchedule"), _spread(app, HOST, "ScheduleAnyway")
    return _pod(name, app, 250, topologySpreadConstraints=[hard, soft])


def _listening(name: str, app: str, chance: random.Random) -> Object:
    zone = {ZONE: chance.choice("abc"), "disk": "ssd"}
    return pod(name, labels={"app": app}, requests=_cpu(100), host_ports=[8080], nodeSelector=zone)


def _important(name: str, app: str, chance: random.Random) -> Object:
    priority = chance.choice([HIGH, HIGH, HIGH_BUT_PATIENT])
    return _pod(name, app, chance.choice([1500, 2500]), priorityClassName=priority)


def _gated(name: str, app: str, chance: random.Random) -> Object:
    return _pod(name, app, 250, schedulingGates=GATES)


def _claiming(name: str, app: str, chance: random.Random) -> Object:
    return _pod(name, app, 100, volumes=[_claim(name)])


_KINDS: dict[Callable[[str, str, random.Random], Object], int] = {
    _plain: 30,
    _large: 8,
    _zonal: 8,
    _rare: 4,
    _tolerating: 6,
    _apart: 8,
    _near: 8,
    _even: 8,
    _listening: 4,
    _important: 10,
    _gated: 6,
    _claiming: 4,
}


def _pod(name: str, app: str, milli: int, **spec: Any) -> Object:
    return pod(name, labels={"app": app}, requests=_cpu(milli), **spec)


def _cpu(milli: int) -> Object:
    return {"cpu": f"{milli}m"}


def _claim(name: str) -> Object:
    return {"name": "data", "persistentVolumeClaim": {"claimName": name}}


def _spread(app: str, topology: str, unsatisfiable: str) -> Object:
    return {
        "maxSkew": 2,
        "topologyKey": topology,
        "whenUnsatisfiable": unsatisfiable,
        "labelSelector": {"matchLabels": {"app": app}},
    }


def _term(app: str, topology: str) -> Object:
    return {"topologyKey": topology, "labelSelector": {"matchLabels": {"app": app}}}

"""Random scripts: clusters in which pods are scheduled one after another, while nodes come, change and go."""

from random import Random
from typing import Any

Script = dict[str, Any]
Object = dict[str, Any]

PODS = 200
ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
# What does not look at where other pods are, so that thousands of attempts take seconds.
PROFILE_NAMES = ("default-scheduler", "other")


def generate(seed: int) -> Script:
    """Write the script of a seed: so many nodes, so many percent, and 200 pods."""
    random = Random(seed)
    nodes: dict[str, Object] = {}
    steps: list[Object] = []
    for number in range(random.choice([3, 60, 99, 100, 101, 130, 250, 700])):
        name = f"n{number}"
        nodes[name] = _node(random, name)
        steps.append({"node": nodes[name]})
    gone: list[str] = []
    for number in range(PODS):
        steps += [_change(random, nodes, gone) for _ in range(random.choice([0, 0, 0, 0, 1, 3]))]
        steps.append({"pod": _pod(random, number, [*nodes, "gone"])})
    return {"name": f"seed {seed}", "config": _config(random), "steps": steps}


def _config(random: Random) -> Object:
    profiles = [_profile(random, name) for name in PROFILE_NAMES]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "parallelism": 1,
        "percentageOfNodesToScore": random.choice([0, 0, 1, 10, 40, 100]),
        "profiles": profiles,
    }


def _profile(random: Random, name: str) -> Object:
    score: Object = {"disabled": [{"name": "*"}]} if random.random() < 0.2 else {}
    profile: Object = {
        "schedulerName": name,
        "plugins": {"multiPoint": {"enabled": [{"name": "Observer"}]}, "score": score},
    }
    percentage = random.choice([None, None, 0, 5, 60, 100])
    return profile if percentage is None else {**profile, "percentageOfNodesToScore": percentage}


def _node(random: Random, name: str) -> Object:
    labels = {}
    for key, values in ((ZONE, ["a", "b", "c", ""]), (REGION, ["r", "s"]), (OLD_ZONE, ["a", "d"])):
        if random.random() < (0.8 if key == ZONE else 0.1):
            labels[key] = random.choice(values)
    if random.random() < 0.004:
        labels["fails"] = ""
    labels["odd"] = str(random.randrange(3))
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": random.random() < 0.1},
        "status": {"allocatable": {"cpu": random.choice(["1", "2", "4"]), "memory": "8Gi", "pods": "20"}},
    }


def _change(random: Random, nodes: dict[str, Object], gone: list[str]) -> Object:
    """Let a node come, come back, change or go."""
    kind = random.randrange(4)
    if kind == 0 and len(nodes) > 2:
        name = random.choice(list(nodes))
        del nodes[name]
        gone.append(name)
        return {"remove": name}
    if kind == 1 and gone:
        name = gone.pop()
    elif kind == 2:
        name = f"late{random.randrange(10**6)}"
    else:
        name = random.choice(list(nodes))
    nodes[name] = _node(random, name)
    return {"node": nodes[name]}


def _pod(random: Random, number: int, nodes: list[str]) -> Object:
    spec: Object = {
        "schedulerName": random.choice(PROFILE_NAMES),
        "containers": [{"name": "c", "resources": {"requests": {"cpu": random.choice(["10m", "500m", "2"])}}}],
    }
    kind = random.random()
    if kind < 0.2:
        spec["nodeSelector"] = {"odd": str(random.randrange(4))}
    elif kind < 0.3:
        # PreFilter names the nodes. kube-scheduler looks at them in the random order of a map: so one of them is gone.
        terms = [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
            for name in ("gone", random.choice(nodes))
        ]
        spec["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        }
    status = {"nominatedNodeName": random.choice(nodes)} if random.random() < 0.1 else {}
    name = f"p{number}"
    return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec, "status": status}

"""Pods of a cluster, and what they are made from: labels and spec, drawn by seed."""

from random import Random
from typing import Any, Final

from tests.worlds.actors.second_scheduler import NAME as SECOND_SCHEDULER
from tests.worlds.clusters.draft import Draft
from tests.worlds.clusters.nodes import DEDICATED, GPU, ZONE

Object = dict[str, Any]

PRIORITIES: Final = {"low": -10, "middle": 5, "high": 100}
# The second namespace. People change its labels.
TEAM: Final = "team"
TEAM_LABELS: Final = {"color": "red"}
_HOSTNAME: Final = "kubernetes.io/hostname"
_CPU: Final = ("50m", "100m", "250m", "500m", "1")
_SCARCE_CPU: Final = ("250m", "500m", "1", "1500m")


def draw_template(draft: Draft, random: Random) -> Object:
    """Draw labels and spec of a pod, of those that may be many alike."""
    app, features = f"app-{random.randrange(3)}", draft.features
    container: Object = {"name": "main", "image": f"image-{random.randrange(3)}:1"}
    if random.random() < 0.9:
        container["resources"] = {"requests": _requests(draft, random)}
    if "ports" in features and random.random() < 0.3:
        container["ports"] = [{"containerPort": 80, "hostPort": random.choice((8080, 8081))}]
    spec: Object = {"containers": [container], "terminationGracePeriodSeconds": random.choice((0, 1, 10, 30))}
    if random.random() < 0.2:
        requests = {"cpu": random.choice(_CPU)}
        spec["initContainers"] = [{"name": "first", "image": "image-0:1", "resources": {"requests": requests}}]
    if "priorities" in features and random.random() < 0.6:
        spec["priorityClassName"] = random.choice([*PRIORITIES])
    if "taints" in features and random.random() < 0.4:
        spec["tolerations"] = [{**DEDICATED, "operator": "Equal"}]
    affinity = _affinity(app, draft, random)
    if affinity:
        spec["affinity"] = affinity
    if "spread" in features and random.random() < 0.4:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": random.randint(1, 2),
                "topologyKey": random.choice((ZONE, _HOSTNAME)),
                "whenUnsatisfiable": random.choice(("DoNotSchedule", "ScheduleAnyway")),
                "labelSelector": {"matchLabels": {"app": app}},
            }
        ]
    return {"metadata": {"labels": {"app": app}}, "spec": spec}


def draw_pod(draft: Draft, random: Random) -> Object:
    """Draw labels and spec of a pod that is alone."""
    pod = draw_template(draft, random)
    spec = pod["spec"]
    if random.random() < 0.25:
        spec["restartPolicy"] = random.choice(("Never", "OnFailure"))
    if "gates" in draft.features and random.random() < 0.2:
        spec["schedulingGates"] = [{"name": "example.com/gate"}]
    if "second-scheduler" in draft.actors and random.random() < 0.2:
        spec["schedulerName"] = SECOND_SCHEDULER
        # It knows only the simple rules.
        for name in ("topologySpreadConstraints", "affinity", "schedulingGates"):
            spec.pop(name, None)
    return pod


def _requests(draft: Draft, random: Random) -> Object:
    requests = {"cpu": random.choice(_SCARCE_CPU if "scarcity" in draft.features else _CPU)}
    if random.random() < 0.7:
        requests["memory"] = random.choice(("64Mi", "256Mi", "1Gi"))
    if random.random() < 0.1:
        requests[GPU] = "1"
    return requests


def _affinity(app: str, draft: Draft, random: Random) -> Object:
    affinity: Object = {}
    if "node-affinity" in draft.features and random.random() < 0.4:
        affinity["nodeAffinity"] = _node_affinity(draft, random)
    if "pod-affinity" in draft.features and random.random() < 0.4:
        other = random.choice((app, f"app-{random.randrange(3)}"))
        term: Object = {
            "labelSelector": {"matchLabels": {"app": other}},
            "topologyKey": random.choice((ZONE, _HOSTNAME)),
        }
        if "namespaces" in draft.features:
            by_label = {"namespaceSelector": {"matchLabels": TEAM_LABELS}}
            term |= random.choice(({}, {"namespaces": [TEAM]}, {"namespaceSelector": {}}, by_label))
        kind = random.choice(("podAffinity", "podAntiAffinity"))
        if random.random() < 0.5:
            affinity[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        else:
            weighted = {"weight": random.randint(1, 100), "podAffinityTerm": term}
            affinity[kind] = {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}
    return affinity


def _node_affinity(draft: Draft, random: Random) -> Object:
    expression = random.choice(
        (
            {"key": "disk", "operator": "In", "values": ["ssd"]},
            {"key": "disk", "operator": "Exists"},
            {"key": ZONE, "operator": "NotIn", "values": [f"zone-{random.randrange(draft.zones)}"]},
        )
    )
    term = {"matchExpressions": [expression]}
    if random.random() < 0.5:
        return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    weighted = {"weight": random.randint(1, 100), "preference": term}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}

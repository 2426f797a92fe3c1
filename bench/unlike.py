"""A cluster in which no two nodes and no two pods are alike, as manifests that both sides of a benchmark read.

Sizes, requests, labels, images, selectors, terms and weights are random, from a fixed seed. Classes of pending pods are
those of bench/synthetic.py. A pod belongs to one of 500 apps, each with a ReplicaSet; one running pod in ten has an
anti-affinity term, required or preferred.
"""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from bench.synthetic import CLASSES
from extender_service.cluster.state.cluster import Cluster
from extender_service.kube.parsing.decoder import Decoder
from extender_service.kube.types.core import Node, Pod
from extender_service.kube.types.workloads import ReplicaSet

Manifest = dict[str, Any]

_APPS, _IMAGES, _TIERS, _PENDING = 500, 400, 7, 320
_HOSTNAME, _ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_nodes, _pods, _replica_sets = Decoder(Node), Decoder(Pod), Decoder(ReplicaSet)


def manifests(nodes: int, pods_per_node: int) -> Manifest:
    """Return `nodes`, running `pods`, `replicaSets`, and `pending` pods by class."""
    random = Random(22)
    return {
        "nodes": [_node(random, index) for index in range(nodes)],
        "pods": [
            _running(random, index, index * pods_per_node + number)
            for index in range(nodes)
            for number in range(pods_per_node)
        ],
        "replicaSets": [_replica_set(app) for app in range(_APPS)],
        "pending": {kind: [pending(random, kind, number) for number in range(_PENDING)] for kind in CLASSES},
    }


def write(of: Manifest, file: Path) -> None:
    """Write manifests where `kubecycle` reads them."""
    file.write_text(json.dumps(of))


def as_list(of: Manifest) -> Manifest:
    """Return nodes, running pods and ReplicaSets of manifests as a List for --cluster-file."""
    kinds = {"v1 Node": of["nodes"], "v1 Pod": of["pods"], "apps/v1 ReplicaSet": of["replicaSets"]}
    lists = [
        {"apiVersion": name.split()[0], "kind": f"{name.split()[1]}List", "items": items}
        for name, items in kinds.items()
    ]
    return {"apiVersion": "v1", "kind": "List", "items": lists}


def cluster(of: Manifest) -> Cluster:
    """Return the cluster of manifests."""
    made = Cluster()
    for replica_set in of["replicaSets"]:
        made.workloads.apply(_replica_sets.decode(msgspec.json.encode(replica_set)))
    for node in of["nodes"]:
        made.apply_node(_nodes.decode(msgspec.json.encode(node)))
    for pod in of["pods"]:
        made.apply_pod(_pods.decode(msgspec.json.encode(pod)))
    return made


def pending_manifests(kind: str) -> Iterator[Manifest]:
    """Yield pending pods of one of synthetic.CLASSES without end: no two alike, and none that is in `manifests`.

    A pod that came twice would find what was remembered about it.
    """
    random = Random(f"more {kind}")
    return (pending(random, kind, number) for number in itertools.count(_PENDING))


def pending_pods(kind: str) -> Iterator[Pod]:
    """Yield the pods of `pending_manifests`."""
    return (_pods.decode(msgspec.json.encode(pod)) for pod in pending_manifests(kind))


def pending(random: Random, kind: str, number: int) -> Manifest:
    """Return a pending pod of one of synthetic.CLASSES."""
    app = random.randrange(_APPS)
    pod = _pod(random, f"pending-{kind}-{number:05}", app)
    spec = pod["spec"]
    if kind != "plain-rs":
        del pod["metadata"]["ownerReferences"]
    if kind == "node-affinity":
        zones = {"key": _ZONE, "operator": "In", "values": random.sample(["zone-0", "zone-1", "zone-2"], 2)}
        tiers = {"key": "tier", "operator": "NotIn", "values": [_tier(random)]}
        spec["affinity"] = {
            "nodeAffinity": {
                _REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [zones, tiers]}]},
                _PREFERRED: [
                    {"weight": random.randint(1, 100), "preference": {"matchExpressions": [_preferred(random)]}}
                    for _ in range(2)
                ],
            }
        }
    if kind == "toleration":
        spec["tolerations"] = [
            *spec["tolerations"],
            {"key": "dedicated", "operator": "Equal", "value": _tier(random), "effect": "NoSchedule"},
            {"key": f"key-{random.randrange(1 << 20)}", "operator": "Exists"},
        ]
    if kind == "spread":
        spec["topologySpreadConstraints"] = [
            _constraint(random, _ZONE, "DoNotSchedule", app),
            _constraint(random, _HOSTNAME, "ScheduleAnyway", app),
        ]
    if kind == "anti-affinity":
        spec["affinity"] = {"podAntiAffinity": {_REQUIRED: [_term(random, app)]}}
    if kind == "pref-pod-affinity":
        spec["affinity"] = {"podAffinity": {_PREFERRED: [_weighted(random, random.randrange(_APPS), _ZONE)]}}
    return pod


def _node(random: Random, index: int) -> Manifest:
    name = f"node-{index:05}"
    tainted = random.random() < 0.1
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                _HOSTNAME: name,
                _ZONE: f"zone-{index % 3}",
                "kubernetes.io/arch": random.choice(["amd64", "arm64"]),
                "node.kubernetes.io/instance-type": f"type-{random.randrange(40)}",
                "tier": _tier(random),
                "serial": str(random.randrange(1 << 30)),
            },
        },
        "spec": {
            "taints": [{"key": "dedicated", "value": _tier(random), "effect": "NoSchedule"}] if tainted else [],
        },
        "status": {
            "allocatable": {
                "cpu": f"{random.randint(16000, 128000)}m",
                "memory": f"{random.randint(32 << 20, 512 << 20)}Ki",
                "ephemeral-storage": f"{random.randint(50 << 20, 900 << 20)}Ki",
                "pods": str(random.randint(60, 250)),
            },
            "images": [
                {"names": [_image(image)], "sizeBytes": (20 << 20) + image * 7654321}
                for image in random.sample(range(_IMAGES), 8)
            ],
        },
    }


def _running(random: Random, node: int, number: int) -> Manifest:
    app = random.randrange(_APPS)
    pod = _pod(random, f"pod-{number:07}", app)
    pod["spec"]["nodeName"] = f"node-{node:05}"
    pod["status"] = {"phase": "Running"}
    drawn = random.random()
    if drawn < 0.05:
        pod["spec"]["affinity"] = {"podAntiAffinity": {_REQUIRED: [_term(random, app)]}}
    elif drawn < 0.1:
        pod["spec"]["affinity"] = {"podAntiAffinity": {_PREFERRED: [_weighted(random, app, _HOSTNAME)]}}
    return pod


def _pod(random: Random, name: str, app: int) -> Manifest:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": _app(app), "uid": _app(app), "controller": True}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "labels": {
                "app": _app(app),
                "release": f"release-{random.randrange(3)}",
                "apps.kubernetes.io/pod-index": str(random.randrange(1 << 20)),
            },
            "ownerReferences": [owner],
        },
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [
                {
                    "name": "main",
                    "image": _image(random.randrange(_IMAGES)),
                    "resources": {
                        "requests": {
                            "cpu": f"{random.randint(20, 2000)}m",
                            "memory": f"{random.randint(32 << 10, 4 << 20)}Ki",
                        }
                    },
                }
            ],
            "tolerations": [
                {"key": f"node.kubernetes.io/{problem}", "operator": "Exists", "effect": "NoExecute"}
                for problem in ("not-ready", "unreachable")
            ],
        },
        "status": {},
    }


def _replica_set(app: int) -> Manifest:
    selector = {"matchLabels": {"app": _app(app)}}
    return {"metadata": {"name": _app(app), "namespace": "default", "uid": _app(app)}, "spec": {"selector": selector}}


def _constraint(random: Random, key: str, unsatisfiable: str, app: int) -> Manifest:
    return {
        "maxSkew": random.randint(5, 20),
        "topologyKey": key,
        "whenUnsatisfiable": unsatisfiable,
        "labelSelector": _selector(random, app),
    }


def _weighted(random: Random, app: int, key: str) -> Manifest:
    term = {"labelSelector": _selector(random, app), "topologyKey": key}
    return {"weight": random.randint(1, 100), "podAffinityTerm": term}


def _term(random: Random, app: int) -> Manifest:
    return {"labelSelector": _selector(random, app), "topologyKey": _HOSTNAME}


def _selector(random: Random, app: int) -> Manifest:
    """Select the pods of an app, except those of some release."""
    release = {"key": "release", "operator": "NotIn", "values": [f"release-{random.randrange(8)}"]}
    return {"matchLabels": {"app": _app(app)}, "matchExpressions": [release]}


def _preferred(random: Random) -> Manifest:
    types = [f"type-{number}" for number in random.sample(range(40), 10)]
    return {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types}


def _tier(random: Random) -> str:
    return f"tier-{random.randrange(_TIERS)}"


def _app(app: int) -> str:
    return f"app-{app:03}"


def _image(number: int) -> str:
    return f"images.example/team-{number % 9}/service-{number:03}:v1"

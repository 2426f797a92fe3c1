"""The nodes and the pods: those of the mixed cluster, and pods that depend on other pods and on volumes."""

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from tests.e2e.support.mixed_cluster import mixed_nodes, mixed_pods
from tests.e2e.support.objects import Object, node, pod

_ZONE, _HOST = "zone", "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_CLAIMS_PER_HUNDRED_NODES = 10


def nodes(hundreds: int) -> list[Object]:
    """So many hundred nodes."""
    return mixed_nodes(hundreds)


def visiting_node(number: int) -> Object:
    """A node that may come and go: no pod needs it."""
    return node(f"visitor-{number}", cpu="8", labels={_ZONE: "e"})


def volumes(hundreds: int) -> Iterator[Object]:
    """Claims, each bound to a volume that the nodes of one zone reach."""
    for number in range(_CLAIMS_PER_HUNDRED_NODES * hundreds):
        name, common = f"claim-{number}", {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
        in_zone = {"key": _ZONE, "operator": "In", "values": ["abc"[number % 3]]}
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


def pods(hundreds: int, seed: int) -> list[Object]:
    """560 pods for each hundred nodes, in random order."""
    found = [*mixed_pods(hundreds), *_dependent_pods(hundreds)]
    random.Random(seed).shuffle(found)
    return found


def _dependent_pods(times: int) -> Iterator[Object]:
    for number in range(_CLAIMS_PER_HUNDRED_NODES * times):
        claim = {"name": "data", "persistentVolumeClaim": {"claimName": f"claim-{number}"}}
        yield pod(f"claimed-{number}", requests={"cpu": "50m"}, volumes=[claim])
        yield _pod(f"even-{number}", "even", topologySpreadConstraints=[_spread("even", _ZONE, "DoNotSchedule")])
        yield _pod(f"wide-{number}", "wide", topologySpreadConstraints=[_spread("wide", _HOST, "ScheduleAnyway")])
        yield _pod(f"near-{number}", "near", affinity={"podAffinity": {_REQUIRED: [_term("near", _ZONE)]}})
        yield _pod(f"apart-{number}", "apart", affinity={"podAntiAffinity": {_REQUIRED: [_term("apart", _HOST)]}})
        rather = [{"weight": 20, "podAffinityTerm": _term("rather", _ZONE)}]
        yield _pod(f"rather-{number}", "rather", affinity={"podAntiAffinity": {_PREFERRED: rather}})


def _pod(name: str, app: str, **spec: Any) -> Object:
    return pod(name, labels={"app": app}, requests={"cpu": "50m"}, **spec)


def _spread(app: str, topology: str, unsatisfiable: str) -> Object:
    return {
        "maxSkew": 3,
        "topologyKey": topology,
        "whenUnsatisfiable": unsatisfiable,
        "labelSelector": {"matchLabels": {"app": app}},
    }


def _term(app: str, topology: str) -> Object:
    return {"topologyKey": topology, "labelSelector": {"matchLabels": {"app": app}}}


def in_parts(found: Sequence[Object], count: int) -> list[Sequence[Object]]:
    """Cut a sequence in so many parts of about equal length."""
    ends = [round(len(found) * part / count) for part in range(count + 1)]
    return [found[begin:end] for begin, end in pairwise(ends)]

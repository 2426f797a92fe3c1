"""What is there and empty: no containers, lists and selectors without entries, objects without a specification."""

from typing import Any

from tests.conformance.edge_cases.case_builder import CaseBuilder, Item, everyone

# Where Go tells an empty list from none, as in a preferred node affinity, the list is not here: an API server leaves it
# out, so that kube-scheduler never sees it.
_POD_FIELDS: dict[str, list[Any]] = {
    "containers": [[], [{}], [{"name": "main", "resources": {}}], [{"name": "main", "resources": {"requests": {}}}]],
    "initContainers": [[], [{}], [{"name": "init", "restartPolicy": "Always"}]],
    "overhead": [{}, {"cpu": "0"}],
    "nodeSelector": [{}],
    "tolerations": [[], [{}], [{"operator": "Exists"}]],
    "topologySpreadConstraints": [[]],
    "volumes": [[], [{"name": "v"}], [{"name": "v", "emptyDir": {}}], [{"name": "v", "projected": {}}]],
    "schedulingGates": [[]],
    "priorityClassName": ["", "no-such-class"],
    "affinity": [
        {},
        {"nodeAffinity": {}, "podAffinity": {}, "podAntiAffinity": {}},
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}},
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}, {}]}}},
        {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference": {}}]}},
        {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [], "matchFields": []}]
                }
            }
        },
        {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}},
        {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    ],
}
_NODE_FIELDS: dict[str, list[Any]] = {
    "allocatable": [{}, {"pods": "5"}, {"cpu": "1"}],
    "capacity": [{}, {"cpu": "8", "memory": "8Gi", "pods": "9"}],
    "images": [[], [{}], [{"names": []}], [{"sizeBytes": 2**30}]],
}


def add_empty_fields(case: CaseBuilder) -> None:
    """Give pods and nodes fields that hold nothing."""
    rng = case.rng
    for pod in everyone(case):
        likely = 0.9 if pod is case.pod else 0.3
        if rng.chance(likely):
            _fill(case, pod["spec"], _POD_FIELDS, 1, 4)
        if rng.chance(0.1):
            pod["metadata"]["labels"] = {}
            pod["metadata"]["annotations"] = {}
            pod["metadata"]["ownerReferences"] = []
    for node in case.nodes:
        if rng.chance(0.3):
            _fill(case, node["status"], _NODE_FIELDS, 1, 2)
        if rng.chance(0.2):
            node["spec"]["taints"] = []
        if rng.chance(0.05):
            node.pop("status")
            node.pop("spec")
    if rng.chance(0.3):
        _add_empty_objects(case)


def _fill(case: CaseBuilder, item: Item, fields: dict[str, list[Any]], low: int, high: int) -> None:
    for field in case.rng.some(fields, low, high):
        item[field] = case.rng.choice(fields[field])


def _add_empty_objects(case: CaseBuilder) -> None:
    namespace = case.pod["metadata"]["namespace"]
    case.add("v1", "Service", "empty", namespace)
    case.add("v1", "ReplicationController", "empty", namespace, spec={})
    case.add(
        "apps/v1", "ReplicaSet", "empty", namespace, spec={"selector": {}, "template": {"metadata": {}, "spec": {}}}
    )
    case.add("policy/v1", "PodDisruptionBudget", "empty", namespace)
    case.add("v1", "PersistentVolume", "empty", spec={})
    case.add("v1", "PersistentVolumeClaim", "empty", namespace, spec={})
    case.add("storage.k8s.io/v1", "CSINode", case.nodes[0]["metadata"]["name"], spec={"drivers": []})
    if case.rng.chance(0.5):
        kind, name = case.rng.choice([("ReplicationController", "v1"), ("ReplicaSet", "apps/v1")])
        owner = {"apiVersion": name, "kind": kind, "name": "empty", "uid": "u", "controller": True}
        case.pod["metadata"]["ownerReferences"] = [owner]
    if case.rng.chance(0.4):
        case.pod["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "empty"}}]

"""Names that are valid and unusual: of resources, owners, labels, nodes, images and drivers."""

from tests.conformance.edge_cases.case_builder import HOSTNAME, ZONE, CaseBuilder, Item, Source, everyone

_LONG = "a" * 63
_RESOURCES = [
    "example.com/gpu",
    "example.com/GPU_1.a",
    "sub.kubernetes.io/slots",
    "kubernetes.io/slots",
    "kubernetes.io.example.com/slots",
    "requests.example.com/slots",
    "limits.example.com/slots",
    f"example.com/{_LONG}",
    "hugepages-2Mi",
    "hugepages-2048Ki",
    "hugepages-1Gi",
    "hugepages-",
    "attachable-volumes-csi-csi.example.com",
    "attachable-volumes-aws-ebs",
    "attachable-volumes-",
    "cpu.example.com/cpu",
    "storage",
    "requests.cpu",
    "example.com/pods",
]
_OWNERS = ["/apps/v1", "apps/v1/", "apps/", "/", "", "a/b/c", "Apps/v1", "apps/v1beta1", "extensions/v1beta1"]
_USUAL_OWNERS = ["v1", "/v1", "apps/v1", "apps/v1"]
_KINDS = ["ReplicationController", "ReplicaSet", "StatefulSet", "replicaset", "Deployment", "DaemonSet", "Job"]
_KEYS = ["a", "A", "a.b-c_d", "example.com/a", "example.com/A", f"example.com/{_LONG}", "kubernetes.io/os"]
_VALUES = ["", "a", "A", "1", "01", "true", "a.b_c-d", _LONG, "null"]
_IMAGES = [
    *("app", "app:latest", "app:v1", "App", "registry:5000/app", "registry:5000/app:v1", "host/a/b/app", ":v1", "app:"),
    *("app@sha256:00", "registry:5000/app@sha256:00", "app:v1@sha256:00", "docker.io/library/app:latest", " app"),
]


def add_resource_names(case: CaseBuilder) -> None:
    """Resources with unusual names, some of which the scheduler does not count."""
    rng = case.rng
    names = rng.some(_RESOURCES, 2, 5)
    for node in case.nodes:
        node["status"]["allocatable"] |= {name: rng.choice(["0", "1", "2", "8"]) for name in rng.some(names, 0, 5)}
    for pod in everyone(case):
        amounts = {name: rng.choice(["0", "1", "1", "2"]) for name in rng.some(names, 0, 3)}
        pod["spec"]["containers"][0]["resources"] = {"requests": amounts}
        if rng.chance(0.1):
            pod["spec"]["overhead"] = dict.fromkeys(rng.some(names, 1, 2), "1")
    if rng.chance(0.5):
        _add_args(case, names)


def _add_args(case: CaseBuilder, names: list[str]) -> None:
    rng = case.rng
    args: Item = {}
    # Validation allows these names only.
    scored = [name for name in names if "/" in name or name.startswith("hugepages-2")]
    if scored and rng.chance(0.7):
        kind = rng.choice(["LeastAllocated", "MostAllocated"])
        resources = [{"name": name, "weight": rng.choice([1, 5])} for name in scored[:3]]
        args["scoringStrategy"] = {"type": kind, "resources": [{"name": "cpu", "weight": 1}, *resources]}
        balanced = [{"name": name, "weight": 1} for name in scored[:3]]
        case.set_args("NodeResourcesBalancedAllocation", resources=balanced)
    if rng.chance(0.4):
        args["ignoredResources"] = rng.some([name for name in names if "/" in name], 0, 2)
    if rng.chance(0.4):
        args["ignoredResourceGroups"] = rng.some(["example.com", "kubernetes.io", "sub.kubernetes.io"], 1, 2)
    case.set_args("NodeResourcesFit", **args)


def add_owner_names(case: CaseBuilder) -> None:
    """Owners in all spellings, with the default constraints that depend on them."""
    rng = case.rng
    namespace = case.pod["metadata"]["namespace"]
    kind = rng.choice(_KINDS if rng.chance(0.3) else _KINDS[:3])
    name = rng.choice(["owner", "Owner", "owner.example.com"])
    metadata = case.pod["metadata"]
    metadata["labels"] = {"app": "web", "tier": rng.choice(["", "front"])}
    metadata["ownerReferences"] = [
        {
            "apiVersion": rng.choice(_USUAL_OWNERS if rng.chance(0.7) else _OWNERS),
            "kind": rng.choice([kind, kind, kind, rng.choice(_KINDS)]),
            "name": rng.choice([name] * 5 + ["other"]),
            "uid": f"uid-{number}",
            **rng.choice([{"controller": True}] * 4 + [{"controller": False}, {}]),
        }
        for number in range(rng.weighted({1: 4, 2: 2}))
    ]
    _add_owner(case, kind, name, namespace)
    for number in range(rng.choice([0, 0, 1, 2])):
        spec = rng.choice([{}, {"selector": {}}, {"selector": {"app": "web"}}, {"selector": {"tier": ""}}])
        case.add("v1", "Service", f"service-{number}", namespace, spec=spec)
    if rng.chance(0.6):
        when = rng.choice(["DoNotSchedule", "ScheduleAnyway"])
        constraint = {"maxSkew": 1, "topologyKey": rng.choice([HOSTNAME, ZONE]), "whenUnsatisfiable": when}
        case.set_args("PodTopologySpread", defaultingType="List", defaultConstraints=[constraint])


def _add_owner(case: CaseBuilder, kind: str, name: str, namespace: str) -> None:
    labels = case.rng.choice([{"app": "web"}, {"tier": ""}, {"app": "web", "tier": "front"}])
    template = {"metadata": {"labels": labels}, "spec": {"containers": []}}
    if kind == "ReplicationController":
        case.add("v1", kind, name, namespace, spec={"selector": labels})
    elif kind == "ReplicaSet":
        case.add("apps/v1", kind, name, namespace, spec={"selector": {"matchLabels": labels}, "template": template})
    elif kind == "StatefulSet":
        spec = {"selector": {"matchLabels": labels}, "template": template, "serviceName": "service-0"}
        case.add("apps/v1", kind, name, namespace, spec=spec)


def add_label_names(case: CaseBuilder) -> None:
    """Labels, taints and node names in unusual spellings, and rules that name them."""
    rng = case.rng
    for number, node in enumerate(case.nodes):
        if rng.chance(0.4):
            _rename(node, f"{number}.Node.example.com".lower(), case.pods)
        node["metadata"].setdefault("labels", {}).update({key: rng.choice(_VALUES) for key in rng.some(_KEYS, 1, 5)})
        if rng.chance(0.4):
            effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"]
            node["spec"]["taints"] = [
                {"key": key, "value": rng.choice(_VALUES), "effect": rng.choice(effects)}
                for key in rng.some(_KEYS, 1, 3)
            ]
    spec = case.pod["spec"]
    if rng.chance(0.3):
        spec["nodeSelector"] = {rng.choice(_KEYS): rng.choice(_VALUES)}
    if rng.chance(0.6):
        spec["tolerations"] = [_toleration(rng) for _ in range(rng.randint(1, 3))]
    expressions = [
        {
            "key": rng.choice(_KEYS),
            "operator": operator,
            **({"values": rng.some(_VALUES, 1, 3)} if "In" in operator else {}),
        }
        for operator in rng.choices(["In", "NotIn", "Exists", "DoesNotExist"], k=2)
    ]
    preferred = [{"weight": rng.randint(1, 100), "preference": {"matchExpressions": expressions[:1]}}]
    affinity: Item = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    if rng.chance(0.5):
        names = [node["metadata"]["name"] for node in case.nodes] + ["NODE-0", "node-0"]
        field = {"key": "metadata.name", "operator": rng.choice(["In", "NotIn"]), "values": [rng.choice(names)]}
        terms = [{"matchExpressions": expressions}, {"matchFields": [field]}]
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    spec.setdefault("affinity", {})["nodeAffinity"] = affinity


def _toleration(rng: Source) -> Item:
    toleration: Item = {"operator": rng.choice(["Equal", "Exists", ""])}
    if toleration["operator"] != "Exists":
        toleration |= {"key": rng.choice(_KEYS), "value": rng.choice(_VALUES)}
    elif rng.chance(0.7):
        toleration["key"] = rng.choice(_KEYS)
    if rng.chance(0.5):
        toleration["effect"] = rng.choice(["NoSchedule", "PreferNoSchedule", "NoExecute"])
    return toleration


def _rename(node: Item, name: str, pods: list[Item]) -> None:
    """Rename a node and keep its pods there. Its host name label keeps the old name."""
    for pod in pods:
        if pod["spec"].get("nodeName") == node["metadata"]["name"]:
            pod["spec"]["nodeName"] = name
    node["metadata"]["name"] = name


def add_image_names(case: CaseBuilder) -> None:
    """Images in all spellings, several names of one image, and one name of several."""
    rng = case.rng
    mib = 2**20
    for node in case.nodes:
        node["status"]["images"] = [
            {"names": rng.some(_IMAGES, 0, 4), "sizeBytes": size * mib} for size in rng.some([10, 50, 300, 2000], 0, 4)
        ]
    for key in rng.choice([["containers"], ["containers", "initContainers"]]):
        case.pod["spec"][key] = [
            {"name": f"{key}-{number}", "image": rng.choice(_IMAGES)} for number in range(rng.randint(1, 4))
        ]

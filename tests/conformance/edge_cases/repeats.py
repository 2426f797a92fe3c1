"""The same thing named twice: in lists of pods, nodes, services and of the configuration."""

from tests.conformance.edge_cases.case_builder import HOSTNAME, ZONE, CaseBuilder, Item, Source, everyone, selector


def add_repeats(case: CaseBuilder) -> None:
    """Lists that name something more than once, where an API server accepts that."""
    rng = case.rng
    parts = [
        _repeat_tolerations,
        _repeat_node_terms,
        _repeat_pod_terms,
        _repeat_ports,
        _repeat_images,
        _repeat_services,
    ]
    for part in rng.some(parts, 1, 4):
        part(case)
    if rng.chance(0.4):
        _repeat_resources(case)
    if rng.chance(0.3):
        _share_names(case)


def _repeat_tolerations(case: CaseBuilder) -> None:
    rng = case.rng
    effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"]
    for node in case.nodes:
        keys = rng.some(["a", "b"], 0, 2)
        # A taint is named by its key and effect, so its value may come twice.
        node["spec"]["taints"] = [
            {"key": key, "value": rng.choice(["", "x"]), "effect": effect}
            for key in keys
            for effect in rng.some(effects, 1, 3)
        ]
    tolerations = [
        {"key": rng.choice("ab"), "operator": "Exists", "effect": rng.choice(effects)} for _ in range(rng.randint(1, 3))
    ]
    case.pod["spec"]["tolerations"] = rng.again(tolerations)


def _repeat_node_terms(case: CaseBuilder) -> None:
    rng = case.rng
    names = [node["metadata"]["name"] for node in case.nodes]
    fields = [
        {"key": "metadata.name", "operator": rng.choice(["In", "In", "NotIn"]), "values": [rng.choice(names)]}
        for _ in range(rng.randint(1, 2))
    ]
    labels: Item = {"key": ZONE, "operator": "In", "values": rng.again(["z1", "z2"])}
    terms = [
        rng.choice(
            [
                {"matchFields": rng.again(fields)},
                {"matchExpressions": rng.again([labels])},
                {"matchExpressions": [labels, {**labels, "values": ["z2"]}], "matchFields": fields},
            ]
        )
        for _ in range(rng.randint(1, 2))
    ]
    affinity: Item = {}
    if rng.chance(0.7):
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": rng.again(terms)}
    preferred = [{"weight": rng.choice([1, 60]), "preference": term} for term in terms]
    affinity["preferredDuringSchedulingIgnoredDuringExecution"] = rng.again(preferred)
    case.pod["spec"].setdefault("affinity", {})["nodeAffinity"] = affinity
    if rng.chance(0.3):
        case.set_args("NodeAffinity", addedAffinity={name: affinity[name] for name in rng.some(affinity, 1, 2)})


def _repeat_pod_terms(case: CaseBuilder) -> None:
    rng = case.rng
    for pod in everyone(case):
        if pod is not case.pod and not rng.chance(0.4):
            continue
        kind = rng.choice(["podAffinity", "podAntiAffinity"])
        labels = pod["metadata"].get("labels", {})
        chosen = rng.choice([{"matchLabels": labels}, selector(rng) or {}])
        term = {"topologyKey": rng.choice([HOSTNAME, ZONE]), "labelSelector": chosen}
        others = [term, {**term, "topologyKey": rng.choice([HOSTNAME, ZONE])}]
        affinity: Item = {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 10, "podAffinityTerm": each} for each in rng.again(others)
            ]
        }
        if rng.chance(0.6):
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = rng.again(others)
        pod["spec"].setdefault("affinity", {})[kind] = affinity


def _repeat_ports(case: CaseBuilder) -> None:
    """The same host port in several containers, as an init container and a container may have it."""
    rng = case.rng
    for pod in everyone(case):
        ports = [
            {"containerPort": 80, "hostPort": rng.choice([80, 81]), "protocol": protocol, "hostIP": address}
            for protocol in rng.some(["TCP", "UDP"], 1, 2)
            for address in rng.some(["127.0.0.1", "10.0.0.1", ""], 1, 2)
        ]
        if pod is case.pod or rng.chance(0.4):
            pod["spec"]["containers"][0]["ports"] = ports
            if rng.chance(0.4):
                always = rng.choice([{}, {"restartPolicy": "Always"}])
                pod["spec"]["initContainers"] = [{"name": "init", "ports": ports, **always}]


def _repeat_images(case: CaseBuilder) -> None:
    """An image under one name twice on a node, with sizes that differ, and in several containers."""
    rng = case.rng
    mib = 2**20
    names = ["app:v1", "app:latest", "app"]
    for node in case.nodes:
        images = [
            {"names": rng.again(rng.some(names, 1, 3)), "sizeBytes": rng.choice([30, 300, 900]) * mib}
            for _ in range(rng.randint(0, 2))
        ]
        node["status"]["images"] = rng.again(images) if rng.chance(0.5) else images
    spec = case.pod["spec"]
    spec["containers"] = [{"name": f"c{number}", "image": rng.choice(names)} for number in range(rng.randint(2, 4))]
    if rng.chance(0.3):
        spec["initContainers"] = [{"name": "init", "image": spec["containers"][0]["image"]}]


def _repeat_services(case: CaseBuilder) -> None:
    """Services, sets and budgets that select the same pods, and a pod with two references to an owner."""
    rng = case.rng
    namespace = case.pod["metadata"]["namespace"]
    labels = case.pod["metadata"].get("labels", {})
    for number in range(rng.randint(1, 3)):
        case.add("v1", "Service", f"service-{number}", namespace, spec={"selector": labels})
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": []}},
    }
    case.add("apps/v1", "ReplicaSet", "owner", namespace, spec=spec)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "owner", "uid": "uid"}
    case.pod["metadata"]["ownerReferences"] = [{**owner, "controller": True}, owner]
    if rng.chance(0.5):
        when = ["DoNotSchedule", "ScheduleAnyway"]
        constraints = [
            {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": rng.choice(when)} for key in (HOSTNAME, ZONE)
        ]
        case.set_args("PodTopologySpread", defaultingType="List", defaultConstraints=constraints)


def _repeat_resources(case: CaseBuilder) -> None:
    """Resources that the configuration names twice."""
    rng = case.rng
    names = ["cpu", "memory", "example.com/gpu"]
    for node in case.nodes:
        node["status"]["allocatable"]["example.com/gpu"] = rng.choice(["1", "4"])
    for pod in everyone(case):
        if rng.chance(0.6):
            request = {"cpu": "300m", "memory": "700Mi", "example.com/gpu": "1"}
            pod["spec"]["containers"][0]["resources"] = {"requests": request}
    resources = rng.again([{"name": name, "weight": rng.choice([1, 3])} for name in rng.some(names, 1, 3)])
    kind = rng.choice(["LeastAllocated", "MostAllocated"])
    args: Item = {"scoringStrategy": {"type": kind, "resources": resources}}
    if rng.chance(0.4):
        args |= {"ignoredResources": ["example.com/gpu"] * 2, "ignoredResourceGroups": ["example.org"] * 2}
    case.set_args("NodeResourcesFit", **args)


def _share_names(case: CaseBuilder) -> None:
    """Pods of one name in several namespaces, and some with the pending pod's name."""
    rng: Source = case.rng
    taken = {("pending", case.pod["metadata"]["namespace"])}
    for pod in case.pods:
        metadata = pod["metadata"]
        name = rng.choice(["pending", "same", metadata["name"]])
        if (name, metadata["namespace"]) not in taken:
            metadata["name"] = name
        taken.add((metadata["name"], metadata["namespace"]))

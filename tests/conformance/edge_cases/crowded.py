"""Full nodes: preemption with budgets and terms whose selectors are missing or empty, and priorities at the limits."""

from tests.conformance.edge_cases.case_builder import (
    HOSTNAME,
    NAMESPACES,
    ZONE,
    CaseBuilder,
    Item,
    requests,
    selector,
    timestamp,
    with_selector,
)

_PRIORITIES = [-(2**31), -1, 0, 0, 1, 1000, 10**9, 2 * 10**9, 2**31 - 1]


def add_victims(case: CaseBuilder) -> None:
    """Fill the nodes until the pending pod hardly fits anywhere."""
    rng = case.rng
    spec = case.pod["spec"]
    spec["priority"] = rng.choice([1, 1000, 1001, 2 * 10**9, 2**31 - 1])
    if rng.chance(0.2):
        spec["preemptionPolicy"] = rng.choice(["PreemptLowerPriority", "Never"])
    for node in case.nodes:
        node["status"]["allocatable"] |= {"cpu": "4", "pods": rng.choice(["20", "20", "4", "1", "0"])}
        for _ in range(rng.randint(1, 4)):
            case.add_running(node)
    for pod in case.pods:
        if rng.chance(0.9):
            pod["spec"]["priority"] = rng.choice(_PRIORITIES)
        requests(pod, rng.choice([{"cpu": "1"}, {"cpu": "1"}, {"cpu": "1500m"}, {"cpu": "0"}, {}]))
        if rng.chance(0.04):
            pod["status"]["phase"] = rng.choice(["Succeeded", "Failed", "Pending", "Unknown"])
    requests(case.pod, {"cpu": rng.choice(["1", "2", "4", "4"])})
    for add in rng.some([_add_anti_affinity, _add_port, _add_spreading], 0, 2):
        add(case)
    _add_budgets(case)
    _add_nominated(case)
    if rng.chance(0.2):
        _make_alike(case)


def _add_anti_affinity(case: CaseBuilder) -> None:
    rng = case.rng
    term = with_selector({"topologyKey": rng.choice([HOSTNAME, ZONE])}, "labelSelector", selector(rng))
    if rng.chance(0.5):
        term["namespaceSelector"] = rng.choice([{}, {"matchLabels": {}}, {"matchLabels": {"team": ""}}])
    if rng.chance(0.3):
        term["namespaces"] = rng.some(NAMESPACES, 1, 2)
    kind = rng.choice(["podAntiAffinity", "podAntiAffinity", "podAffinity"])
    for pod in rng.choice([[case.pod], rng.some(case.pods, 1, 4)]):
        affinity = {"requiredDuringSchedulingIgnoredDuringExecution": [term] * rng.choice([1, 1, 2])}
        pod["spec"].setdefault("affinity", {})[kind] = affinity


def _add_port(case: CaseBuilder) -> None:
    for pod in [*case.rng.some(case.pods, 1, 4), case.pod]:
        pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}] * case.rng.choice([1, 2])


def _add_spreading(case: CaseBuilder) -> None:
    rng = case.rng
    constraint = {"maxSkew": 1, "topologyKey": rng.choice([HOSTNAME, ZONE]), "whenUnsatisfiable": "DoNotSchedule"}
    constraint = with_selector(constraint, "labelSelector", selector(rng))
    if rng.chance(0.5):
        constraint["minDomains"] = rng.choice([1, 10])
    case.pod["spec"]["topologySpreadConstraints"] = [constraint]


def _add_budgets(case: CaseBuilder) -> None:
    """Budgets that select no pod, all pods of a namespace, or the same pods."""
    rng = case.rng
    for number in range(rng.choice([0, 1, 2, 4])):
        names = [pod["metadata"]["name"] for pod in case.pods]
        status: Item = {"disruptionsAllowed": rng.choice([0, 0, 1, 2, 2**31 - 1])}
        if rng.chance(0.3):
            status["disruptedPods"] = {name: timestamp(5) for name in rng.some(names, 0, 3)}
        spec = with_selector({"minAvailable": rng.choice([0, 1, "100%"])}, "selector", selector(rng))
        namespace = rng.choice([case.pod["metadata"]["namespace"], *NAMESPACES])
        case.add("policy/v1", "PodDisruptionBudget", f"budget-{number}", namespace, spec=spec, status=status)


def _add_nominated(case: CaseBuilder) -> None:
    """Pods that are nominated, of any priority, to nodes that may not exist; victims that are about to end."""
    rng = case.rng
    names = [*(node["metadata"]["name"] for node in case.nodes), "no-such-node"]
    if rng.chance(0.3):
        case.pod["status"]["nominatedNodeName"] = rng.choice(names)
    for _ in range(rng.choice([0, 0, 1, 2])):
        pod = case.add_running({"metadata": {"name": "unused"}})
        del pod["spec"]["nodeName"]
        pod["status"] = {"phase": "Pending", "nominatedNodeName": rng.choice(names)}
        pod["spec"]["priority"] = rng.choice([case.pod["spec"]["priority"], *_PRIORITIES])
        requests(pod, {"cpu": "1"})
    for pod in case.pods:
        if rng.chance(0.06):
            pod["metadata"]["deletionTimestamp"] = timestamp(10**7)
            reason = rng.choice(["PreemptionByScheduler", "EvictionByEvictionAPI"])
            status = rng.choice(["True", "False", "Unknown"])
            condition = {"type": "DisruptionTarget", "status": status, "reason": reason}
            pod["status"]["conditions"] = rng.choice([[], [condition], [condition] * 2])


def _make_alike(case: CaseBuilder) -> None:
    """Give all pods the same priority and request, and few start times, so that later criteria decide."""
    for pod in case.pods:
        pod["spec"]["priority"] = 0
        requests(pod, {"cpu": "1"})
        if "startTime" in pod["status"]:
            pod["status"]["startTime"] = timestamp(case.rng.choice([1, 2]))

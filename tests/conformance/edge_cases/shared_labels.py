"""Nodes that share a host name or lack one, empty label values, and the rules that group nodes by labels."""

from tests.conformance.edge_cases.case_builder import (
    HOSTNAME,
    NAMESPACES,
    TOPOLOGY_KEYS,
    CaseBuilder,
    Item,
    Source,
    everyone,
    selector,
    with_selector,
)


def add_shared_hosts(case: CaseBuilder) -> None:
    """Labels by which nodes are grouped: shared, empty, missing, or another node's name."""
    rng = case.rng
    for node in case.nodes:
        labels = node["metadata"]["labels"]
        for key in TOPOLOGY_KEYS[:-1]:
            roll = rng.random()
            if roll < 0.25:
                labels[key] = rng.choice(["", "shared", "node-0", "node-1"])
            elif roll < 0.35:
                labels.pop(key, None)
        if rng.chance(0.05):
            node["metadata"]["labels"] = {}
        if rng.chance(0.03):
            del node["metadata"]["labels"]


def add_groups(case: CaseBuilder) -> None:
    """Affinity between pods and spreading, over keys that few nodes have."""
    rng = case.rng
    for pod in case.pods:
        if rng.chance(0.3):
            _add_affinity(rng, pod)
    if rng.chance(0.7):
        _add_affinity(rng, case.pod)
    if rng.chance(0.6):
        _add_spreading(case)
    if rng.chance(0.2):
        weight = rng.choice([0, 1, 100])
        case.set_args(
            "InterPodAffinity", hardPodAffinityWeight=weight, ignorePreferredTermsOfExistingPods=rng.chance(0.5)
        )


def _add_affinity(rng: Source, pod: Item) -> None:
    for kind in rng.some(["podAffinity", "podAntiAffinity"], 1, 2):
        affinity: Item = {}
        if rng.chance(0.5):
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = _terms(rng, 2)
        if rng.chance(0.6):
            affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": rng.choice([1, 50, 100]), "podAffinityTerm": term} for term in _terms(rng, 3)
            ]
        pod["spec"].setdefault("affinity", {})[kind] = affinity


def _terms(rng: Source, most: int) -> list[Item]:
    terms = [_term(rng) for _ in range(rng.randint(1, most))]
    return rng.again(terms) if rng.chance(0.3) else terms


def _term(rng: Source) -> Item:
    term = with_selector({"topologyKey": rng.choice(TOPOLOGY_KEYS)}, "labelSelector", selector(rng))
    if rng.chance(0.3):
        term["namespaces"] = rng.choice([[], ["team-a"], ["team-a", "team-a"], rng.some(NAMESPACES, 1, 4)])
    if rng.chance(0.4):
        term["namespaceSelector"] = rng.choice(
            [
                {},
                {"matchLabels": {}},
                {"matchLabels": {"team": ""}},
                {"matchExpressions": []},
                {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
                {"matchExpressions": [{"key": "team", "operator": "In", "values": ["", "", "a"]}]},
            ]
        )
    return term


def _add_spreading(case: CaseBuilder) -> None:
    rng = case.rng
    constraints: list[Item] = []
    for key in rng.some(TOPOLOGY_KEYS, 1, 3):
        for when in rng.some(["DoNotSchedule", "ScheduleAnyway"], 1, 2):
            constraint = {"maxSkew": rng.choice([1, 2, 5]), "topologyKey": key, "whenUnsatisfiable": when}
            constraint = with_selector(constraint, "labelSelector", selector(rng))
            if when == "DoNotSchedule" and rng.chance(0.3):
                constraint["minDomains"] = rng.choice([1, 2, len(case.nodes), len(case.nodes) + 1])
            if "labelSelector" in constraint and rng.chance(0.3):
                constraint["matchLabelKeys"] = rng.some(["app", "tier", "example.com/Part_1.a", "absent"], 0, 3)
            for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
                if rng.chance(0.3):
                    constraint[policy] = rng.choice(["Honor", "Ignore"])
            constraints.append(constraint)
    case.pod["spec"]["topologySpreadConstraints"] = constraints
    for node in case.nodes:
        if rng.chance(0.2):
            node["spec"]["taints"] = [{"key": "a", "value": "", "effect": rng.choice(["NoSchedule", "NoExecute"])}]
        if rng.chance(0.05):
            node["spec"]["unschedulable"] = True
    if rng.chance(0.3):
        case.pod["spec"]["nodeSelector"] = {rng.choice([HOSTNAME, "rack"]): rng.choice(["", "shared", "a"])}


def add_empty_labels(case: CaseBuilder) -> None:
    """Pods without labels or with empty values."""
    rng = case.rng
    for pod in everyone(case):
        roll = rng.random()
        if roll < 0.2:
            pod["metadata"].pop("labels", None)
        elif roll < 0.5:
            pod["metadata"]["labels"] = dict.fromkeys(rng.some(["app", "tier", "absent"], 0, 3), "")

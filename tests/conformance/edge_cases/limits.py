"""Amounts at and beyond each limit: what overflows int64, what float64 rounds, what is capped, zero and nothing."""

from tests.conformance.edge_cases.case_builder import HOSTNAME, ZONE, CaseBuilder, Item, Source, everyone, requests

_MOST = 2**63 - 1
# Around 2**53, float64 begins to round; a hundredfold overflows int64 beyond MOST / 100; 84Pi is such an amount.
_BYTES = [
    *("0", "1", "1m", "0.5", "1Ki", "64Mi", "1Gi", "4Gi"),
    *(str(number) for number in (2**31 - 1, 2**31, 2**53 - 1, 2**53, 2**53 + 1)),
    *(str(number) for number in (_MOST // 100, _MOST // 100 + 1, _MOST // 2, _MOST // 2 + 1, _MOST - 1, _MOST)),
    *("82Pi", "84Pi", "1Ei", "3Ei", "4Ei", "8Ei", "9223372036854775807.5"),
]
_CPU = [
    *("0", "1n", "1u", "1m", "999999n", "100m", "0.1005", "1", "1e3", "1M"),
    *(f"{number}m" for number in (2**31 - 1, 2**53 + 1, _MOST // 100, _MOST // 100 + 1, _MOST - 1, _MOST)),
    *("92233720368547758", "9223372036854775", "9223372036854776", "9223372036854775807", "8Ei"),
]
_COUNTS = ["0", "1m", "1", "2", "1k", *(str(n) for n in (2**31 - 1, 2**31, 2**53 + 1, _MOST // 100 + 1, _MOST))]
# Go stores few digits and a power of ten in one way, and more digits or binary amounts from Pi on in another. Each
# overflows int64 differently, and so does one that was compared with or added to the other, which this project does not
# follow (whole_value in kube/parsing/quantities.py). So no case has both.
_POWERS = ["0", "1E", "2E", "9E", "10E", "100E", "1e30"]
_CPU_POWERS = ["0", "1P", "2P", "9P", "10P", "100P", "1e30"]
_SCALARS = ["example.com/gpu", "hugepages-2Mi", "hugepages-1Gi"]
_Palette = dict[str, list[str]]
_AMOUNTS: _Palette = {"cpu": _CPU, "memory": _BYTES, "ephemeral-storage": _BYTES, **dict.fromkeys(_SCALARS, _COUNTS)}
_AMOUNTS_AS_POWERS = dict.fromkeys(_AMOUNTS, _POWERS) | {"cpu": _CPU_POWERS}
# Int32, as validation allows it.
_INT32 = [1, 2, 2**31 - 2, 2**31 - 1]


def add_amounts(case: CaseBuilder) -> None:
    """Requests and allocatable amounts of which few are ordinary, and scores that are computed from them."""
    rng = case.rng
    likely = rng.choice([0.2, 0.6, 0.95])
    palette = rng.choice([_AMOUNTS, _AMOUNTS, _AMOUNTS, _AMOUNTS_AS_POWERS])
    # Where all amounts are drawn alike, hardly any pod fits.
    low, high = rng.choice([(0, 1), (0, 0.5), (0, 0.3), (0.4, 0.7)])
    for node in case.nodes:
        allocatable = node["status"]["allocatable"]
        allocatable |= _amounts(rng, palette, likely, rng.choice([0, 0.5]), 1)
        allocatable["pods"] = rng.choice(["20", "20", "20", *_COUNTS])
    for pod in case.pods:
        if rng.chance(0.6):
            _request(rng, pod, palette, likely * 0.6, low, high)
    _request(rng, case.pod, palette, likely, low, high)
    if rng.chance(0.5):
        _add_scoring(case)


def _amounts(rng: Source, palette: _Palette, likely: float, low: float, high: float) -> dict[str, str]:
    """Return amounts of some resources, from a part of the lists, which ascend."""
    return {
        name: rng.choice(amounts[int(low * len(amounts)) : int(high * len(amounts))])
        for name, amounts in palette.items()
        if rng.chance(likely)
    }


def _request(rng: Source, pod: Item, palette: _Palette, likely: float, low: float, high: float) -> None:
    requests(pod, _amounts(rng, palette, likely, low, high))
    spec = pod["spec"]
    if rng.chance(0.2):
        spec["containers"].append(
            {"name": "more", "resources": {"requests": _amounts(rng, palette, likely / 2, low, high)}}
        )
    if rng.chance(0.2):
        spec["initContainers"] = [
            {
                "name": f"init-{number}",
                "resources": {"requests": _amounts(rng, palette, likely / 2, low, high)},
                **({"restartPolicy": "Always"} if rng.chance(0.5) else {}),
            }
            for number in range(rng.randint(1, 3))
        ]
    if rng.chance(0.1):
        spec["overhead"] = _amounts(rng, palette, 0.5, low, high)


def _add_scoring(case: CaseBuilder) -> None:
    rng = case.rng
    names = ["cpu", "memory", "ephemeral-storage", *_SCALARS]
    strategy: Item = {
        "type": rng.choice(["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]),
        "resources": [{"name": name, "weight": rng.choice([1, 1, 7, 100])} for name in rng.some(names, 1, 4)],
    }
    if strategy["type"] == "RequestedToCapacityRatio":
        utilizations = sorted(rng.some([0, 1, 30, 99, 100], 1, 4))
        strategy["requestedToCapacityRatio"] = {
            "shape": [{"utilization": each, "score": rng.choice([0, 1, 9, 10])} for each in utilizations]
        }
    case.set_args("NodeResourcesFit", scoringStrategy=strategy)
    balanced = [{"name": name, "weight": 1} for name in rng.some(names, 1, 5)]
    case.set_args("NodeResourcesBalancedAllocation", resources=balanced)


def add_numbers(case: CaseBuilder) -> None:
    """Numbers elsewhere: of labels, ports, images, spreading, terms, tolerations and weights of plugins."""
    rng = case.rng
    spec = case.pod["spec"]
    for feature in rng.some([_compare_labels, _use_ports, _measure_images, _spread, _prefer], 1, 3):
        feature(case)
    if rng.chance(0.3):
        case.enable("score", rng.choice(["ImageLocality", "InterPodAffinity", "NodeAffinity"]), rng.choice(_INT32))
    if rng.chance(0.3):
        spec["tolerations"] = [
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
            for seconds in (-_MOST - 1, _MOST)
        ]
        for node in case.nodes:
            node["spec"]["taints"] = [{"key": rng.choice("ab"), "effect": "NoExecute"}]


def _compare_labels(case: CaseBuilder) -> None:
    rng = case.rng
    numbers = ["0", "-0", "-1", "+5", "5", "05", "5.0", "", "x", str(_MOST), str(_MOST + 1), str(-_MOST - 1), "0x5"]
    for node in case.nodes:
        node["metadata"].setdefault("labels", {})["number"] = rng.choice(
            [text for text in numbers if text[:1] not in ("-", "+")]
        )
    terms = [
        {"matchExpressions": [{"key": "number", "operator": rng.choice(["Gt", "Lt"]), "values": [rng.choice(numbers)]}]}
        for _ in range(2)
    ]
    case.pod["spec"].setdefault("affinity", {})["nodeAffinity"] = {
        **({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}} if rng.chance(0.6) else {}),
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": rng.choice([1, 100]), "preference": term} for term in terms
        ],
    }


def _use_ports(case: CaseBuilder) -> None:
    rng = case.rng
    for pod in everyone(case):
        pod["spec"]["containers"][0]["ports"] = [
            {
                "containerPort": 1,
                "hostPort": rng.choice([0, 1, 65535]),
                "hostIP": rng.choice(["", "0.0.0.0", "::", "::1", "127.0.0.1", "255.255.255.255"]),
                "protocol": rng.choice(["TCP", "UDP", "SCTP"]),
            }
            for _ in range(rng.randint(0, 2))
        ]


def _measure_images(case: CaseBuilder) -> None:
    rng = case.rng
    mib = 2**20
    sizes = [0, 1, 23 * mib - 1, 23 * mib, 23 * mib + 1, 1000 * mib, 2**53 + 1, _MOST // 100, _MOST // 2 + 1, _MOST]
    by_image = {f"app:v{number}": rng.choice(sizes) for number in range(1, 4)}
    for node in case.nodes:
        node["status"]["images"] = [{"names": [name], "sizeBytes": by_image[name]} for name in rng.some(by_image, 0, 3)]
    containers = [{"name": f"c{number}", "image": rng.choice([*by_image, "", "none"])} for number in range(4)]
    case.pod["spec"]["containers"][1:] = containers[: rng.randint(0, 4)]


def _spread(case: CaseBuilder) -> None:
    rng = case.rng
    constraints: list[Item] = []
    for key in rng.some([HOSTNAME, ZONE], 1, 2):
        constraint: Item = {
            "maxSkew": rng.choice(_INT32),
            "topologyKey": key,
            "whenUnsatisfiable": rng.choice(["DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
        if constraint["whenUnsatisfiable"] == "DoNotSchedule" and rng.chance(0.5):
            constraint["minDomains"] = rng.choice([*_INT32, len(case.nodes)])
        constraints.append(constraint)
    case.pod["spec"]["topologySpreadConstraints"] = constraints


def _prefer(case: CaseBuilder) -> None:
    rng = case.rng
    for pod in everyone(case):
        count = rng.choice([0, 0, 1, 40]) if pod is not case.pod else 40
        terms = [
            {"weight": rng.choice([1, 100]), "podAffinityTerm": {"topologyKey": HOSTNAME, "labelSelector": {}}}
            for _ in range(count)
        ]
        kind = rng.choice(["podAffinity", "podAntiAffinity"])
        if terms:
            pod["spec"].setdefault("affinity", {})[kind] = {"preferredDuringSchedulingIgnoredDuringExecution": terms}

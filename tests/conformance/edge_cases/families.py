"""The families of fresh cases: each feature alone, several together, and large clusters."""

from collections.abc import Callable

from tests.conformance.edge_cases.case_builder import CaseBuilder, Item, Source
from tests.conformance.edge_cases.crowded import add_victims
from tests.conformance.edge_cases.empty_fields import add_empty_fields
from tests.conformance.edge_cases.limits import add_amounts, add_numbers
from tests.conformance.edge_cases.odd_names import add_image_names, add_label_names, add_owner_names, add_resource_names
from tests.conformance.edge_cases.repeats import add_repeats
from tests.conformance.edge_cases.shared_labels import add_empty_labels, add_groups, add_shared_hosts
from tests.conformance.edge_cases.volumes import add_volumes

Feature = Callable[[CaseBuilder], None]

_ALONE: dict[str, list[Feature]] = {
    "repeats": [add_repeats],
    "amounts": [add_amounts],
    "numbers": [add_numbers],
    "resourcenames": [add_resource_names],
    "owners": [add_empty_labels, add_owner_names],
    "labelnames": [add_label_names],
    "imagenames": [add_image_names],
    "hosts": [add_empty_labels, add_shared_hosts, add_groups],
    "empty": [add_empty_fields],
    "volumes": [add_volumes],
    "victims": [add_victims],
}
# In this order: later ones change what earlier ones added.
_TOGETHER: list[Feature] = [
    add_victims,
    add_empty_labels,
    add_shared_hosts,
    add_amounts,
    add_resource_names,
    add_groups,
    add_owner_names,
    add_repeats,
    add_numbers,
    add_label_names,
    add_image_names,
    add_volumes,
    add_empty_fields,
]
FAMILIES = [*_ALONE, "together", "large"]


def fresh_case(family: str, seed: int, index: int) -> Item:
    """Return a case. The same family, seed and index always give the same one."""
    name = f"{family}-{seed}-{index}"
    rng = Source(name)
    case = CaseBuilder(name, rng)
    if family == "large":
        case.add_nodes(rng.randint(60, 300))
        case.add_pods(0, rng.choice([1, 2]))
    else:
        case.add_nodes(rng.weighted({1: 2, 2: 2, 3: 4, 5: 4, 8: 3, 13: 1}))
        case.add_pods(0, rng.choice([1, 3, 5]))
    for feature in _ALONE.get(family) or sorted(rng.some(_TOGETHER, 2, 4), key=_TOGETHER.index):
        feature(case)
    return case.encode()

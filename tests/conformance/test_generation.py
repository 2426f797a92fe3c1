"""The second generator: the same seed makes the same cases, which hold what the first generator never makes."""

import json
from typing import Any

import pytest

from tests.conformance.edge_cases.derivation import DERIVATIONS, derived_case
from tests.conformance.edge_cases.families import FAMILIES, fresh_case
from tests.conformance.edge_cases.generation import derived_cases, fresh_cases


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_makes_the_same_cases_again(family: str) -> None:
    assert [fresh_case(family, 7, index) for index in range(5)] == [fresh_case(family, 7, index) for index in range(5)]
    assert fresh_case(family, 7, 0) != fresh_case(family, 8, 0)


def test_all_families_take_turns_and_large_clusters_are_fewer() -> None:
    cases = list(fresh_cases(1, 242))
    of_family = [case["name"].split("-")[0] for case in cases]
    assert {family: of_family.count(family) for family in FAMILIES} == dict.fromkeys(FAMILIES, 20) | {"large": 2}
    assert len({case["name"] for case in cases}) == 242


def test_derived_cases_come_from_both_generators() -> None:
    names = [case["name"] for case in derived_cases(1, 60)]
    first_generators = [name for name in names if "-of-resources-" in name]
    ours = [name for name in names if "-of-repeats-" in name]
    assert first_generators
    assert ours
    assert len(set(names)) == 60


def test_a_derived_case_differs_and_leaves_the_other_as_it_is() -> None:
    source = fresh_case("volumes", 1, 0)
    before = json.dumps(source)
    derived = [derived_case(source, 1, index) for index in range(12)]
    assert json.dumps(source) == before
    assert {case["name"].split("-")[0] for case in derived} == DERIVATIONS.keys()
    # Fields that are swapped may be equal.
    assert sum((case["pod"], case["objects"]) != (source["pod"], source["objects"]) for case in derived) > 6


@pytest.mark.parametrize("family", FAMILIES)
def test_no_two_objects_of_a_kind_share_a_name(family: str) -> None:
    """An API server has no such objects, and the pods' identity would depend on chance."""
    for index in range(20):
        case = fresh_case(family, 3, index)
        keys = [_key(item) for item in case["objects"]] + [_key({"kind": "Pod", **case["pod"]})]
        assert len(set(keys)) == len(keys)


def _key(item: dict[str, Any]) -> tuple[str, str, str]:
    return item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]


def test_doubling_elements_of_a_pods_lists_leaves_the_configuration_as_it_is() -> None:
    """Both may have been made of the same lists."""
    for index in range(100):
        source = fresh_case("repeats", 1, index)
        assert derived_case(source, 1, index).get("config") == source.get("config")

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from extender_service.kube.parsing.field_errors import described
from extender_service.kube.parsing.label_syntax import V1_31
from extender_service.kube.parsing.selectors import (
    EVERYTHING,
    NOTHING,
    FieldRequirement,
    NodeTerm,
    Operator,
    Requirement,
    Selector,
    SelectorError,
    WeightedNodeTerm,
    label_set_selector,
    parse_label_integer,
    parse_label_selector,
    parse_node_selector,
    parse_preferred_terms,
    required_node_affinity,
)
from extender_service.kube.types import core as objects

GOLDEN = Path(__file__).parent / "golden"


def golden(name: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The subjects, which selectors are matched with, and the cases."""
    subjects, *cases = map(json.loads, (GOLDEN / name).read_text().splitlines())
    return subjects, cases


def expression(key: str, operator: str, *values: str) -> objects.SelectorRequirement:
    return objects.SelectorRequirement(key, operator, values)


def select(raw: objects.LabelSelector | None, subjects: list[dict[str, Any]]) -> dict[str, object]:
    try:
        selector = parse_label_selector(raw)
    except SelectorError as error:
        return {"error": str(error)}
    return {"matches": "".join(str(int(selector.matches(subject["labels"]))) for subject in subjects)}


def prefer(spec: objects.PodSpec, subjects: list[dict[str, Any]]) -> dict[str, object]:
    assert spec.affinity is not None
    assert spec.affinity.node_affinity is not None
    try:
        preferred = parse_preferred_terms(spec.affinity.node_affinity.preferred)
    except SelectorError as error:
        return {"preferredError": str(error)}
    return {"scores": [preferred.score(subject["labels"], subject["name"]) for subject in subjects]}


def require(spec: objects.PodSpec, subjects: list[dict[str, Any]]) -> dict[str, object]:
    required = required_node_affinity(spec)
    verdicts = "".join(str(int(required.matches(subject["labels"], subject["name"]))) for subject in subjects)
    if required.affinity is not None and required.affinity.errors:
        return {"matches": verdicts, "requiredError": described(required.affinity.errors, V1_31)}
    return {"matches": verdicts}


def test_label_selectors_decide_and_complain_as_in_kubernetes() -> None:
    subjects, cases = golden("label_selectors.jsonl")
    assert len(subjects) * len(cases) > 1000
    for case in cases:
        raw = msgspec.convert(case.pop("selector"), objects.LabelSelector | None)
        assert select(raw, subjects) == case, raw


def test_node_affinity_decides_and_complains_as_in_kubernetes() -> None:
    subjects, cases = golden("node_selectors.jsonl")
    assert len(subjects) * len(cases) > 1000
    for case in cases:
        affinity = msgspec.convert(case["spec"]["affinity"], objects.Affinity)
        spec = objects.PodSpec(affinity=affinity, node_selector=case["spec"].get("nodeSelector", {}))
        del case["spec"]
        assert require(spec, subjects) | prefer(spec, subjects) == case, spec


def test_no_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert parse_label_selector(None) == NOTHING
    assert parse_label_selector(objects.LabelSelector()) == EVERYTHING
    assert not NOTHING.matches({})
    assert EVERYTHING.matches({})


def test_selectors_that_mean_the_same_are_equal_and_hash_equal() -> None:
    one = parse_label_selector(
        objects.LabelSelector({"tier": "a"}, (expression("app", "In", "x", "y", "x"), expression("app", "Exists")))
    )
    other = parse_label_selector(
        objects.LabelSelector(
            {}, (expression("app", "Exists"), expression("tier", "In", "a"), expression("app", "In", "y", "x"))
        )
    )
    assert one == other
    assert hash(one) == hash(other)
    assert one.requirements == (
        Requirement("app", Operator.EXISTS),
        Requirement("app", Operator.IN, ("x", "y")),
        Requirement("tier", Operator.IN, ("a",)),
    )


def test_a_label_set_is_not_validated() -> None:
    selector = label_set_selector({"not a key": "not a value"})
    assert selector.matches({"not a key": "not a value"})
    assert not selector.matches({})


@pytest.mark.parametrize(
    ("operator", "values", "absent", "five"),
    [
        (Operator.IN, ("5",), False, True),
        (Operator.NOT_IN, ("5",), True, False),
        (Operator.EXISTS, (), False, True),
        (Operator.DOES_NOT_EXIST, (), True, False),
    ],
)
def test_a_requirement_judges_one_value_or_its_absence(
    operator: Operator, values: tuple[str, ...], absent: bool, five: bool
) -> None:
    requirement = Requirement("count", operator, values)
    assert requirement.matches_value(None) is absent
    assert requirement.matches_value("5") is five
    assert requirement.matches({"count": "5", "other": ""}) is five


def test_bounds_are_open_and_need_a_number() -> None:
    raw = objects.NodeSelectorTerm((expression("count", "Gt", "5"), expression("count", "Lt", "8")))
    (term,) = parse_node_selector(objects.NodeSelector((raw,))).terms
    assert [requirement.bound for requirement in term.labels.requirements] == [5, 8]
    passing = [
        text for text in ("4", "5", "6", "+7", "8", "6.0", " 6", "", "six") if term.matches({"count": text}, "n")
    ]
    assert passing == ["6", "+7"]


def test_a_wrong_term_is_left_out_and_the_others_count() -> None:
    selector = parse_node_selector(
        objects.NodeSelector(
            (
                objects.NodeSelectorTerm((expression("app", "Has"),)),
                objects.NodeSelectorTerm(),
                objects.NodeSelectorTerm(match_fields=(expression("metadata.name", "NotIn", "b"),)),
            )
        )
    )
    assert selector.terms == (NodeTerm(EVERYTHING, (FieldRequirement("metadata.name", Operator.NOT_IN, "b"),)),)
    assert [selector.matches({}, name) for name in "ab"] == [True, False]
    assert described(selector.errors, V1_31) == (
        'nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Has": supported values: '
        '"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'
    )


def test_preferred_terms_of_no_weight_are_not_even_read() -> None:
    wrong = objects.NodeSelectorTerm((expression("app", "Has"),))
    right = objects.NodeSelectorTerm((expression("app", "Exists"),))
    terms = parse_preferred_terms(
        (
            objects.PreferredSchedulingTerm(0, wrong),
            objects.PreferredSchedulingTerm(7, objects.NodeSelectorTerm()),
            objects.PreferredSchedulingTerm(3, right),
        )
    )
    assert terms.terms == (WeightedNodeTerm(3, NodeTerm(Selector((Requirement("app", Operator.EXISTS),)))),)


def test_errors_of_preferred_terms_are_told_together_each_once() -> None:
    wrong = objects.NodeSelectorTerm((expression("app", "In"),), (expression("metadata.name", "Gt", "1"),))
    with pytest.raises(SelectorError) as error:
        parse_preferred_terms((objects.PreferredSchedulingTerm(1, wrong),))
    assert str(error.value) == (
        "[[0].matchExpressions[0].values: Invalid value: []string(nil): for 'in', 'notin' operators, values set can't "
        'be empty, [0].matchFields[0].operator: Unsupported value: "Gt": supported values: "In", "NotIn"]'
    )


@given(st.integers(-(2**65), 2**65))
@example(-(2**63))
@example(-(2**63) - 1)
@example(2**63 - 1)
@example(2**63)
def test_numbers_are_read_within_int64(number: int) -> None:
    assert parse_label_integer(str(number)) == (number if -(2**63) <= number < 2**63 else None)


@pytest.mark.parametrize("text", ["", "+", "1_000", "٣", " 1", "1 ", "1\n", "0x1", "1.0", "1" * 5000])
def test_what_python_reads_as_a_number_but_go_does_not_is_refused(text: str) -> None:
    assert parse_label_integer(text) is None


def test_all_that_is_wrong_with_a_value_is_told() -> None:
    with pytest.raises(SelectorError) as error:
        parse_label_selector(objects.LabelSelector({"app": "-" * 64}))
    assert ": must be no more than 63 characters; a valid label must " in str(error.value)


def test_only_bounds_are_read_as_numbers() -> None:
    selector = parse_label_selector(objects.LabelSelector({"count": "5"}))
    assert selector.requirements == (Requirement("count", Operator.IN, ("5",)),)

import pytest

from extender_service.config.rules import rules_of
from extender_service.kube.parsing.field_errors import (
    InvalidLabelKey,
    InvalidValue,
    UnknownOperator,
    UnsupportedValue,
    aggregate,
    child,
    described,
)

OLDEST, NEWEST = rules_of(31).wording, rules_of(37).wording


def test_errors_read_as_in_go() -> None:
    assert InvalidValue(child("", "key"), "a\tb", "is wrong").text(OLDEST) == 'key: Invalid value: "a\\tb": is wrong'
    assert UnsupportedValue("op", "=", ("In",)).text(OLDEST) == 'op: Unsupported value: "=": supported values: "In"'
    assert UnknownOperator("Has").text(OLDEST) == '"Has" is not a valid label selector operator'
    assert InvalidLabelKey("spec.key", "/a").text(OLDEST) == (
        'spec.key: Invalid value: "/a": prefix part must be non-empty'
    )


@pytest.mark.parametrize(
    ("values", "before", "after"),
    [
        ((), "[]string(nil)", "null"),
        (("a", 'b"'), '[]string{"a", "b\\""}', '["a","b\\""]'),
        (("<&>\u2028ü\x07",), '[]string{"<&>\\u2028ü\\a"}', '["\\u003c\\u0026\\u003e\\u2028ü\\u0007"]'),
    ],
)
def test_lists_are_shown_as_json_from_1_34_on(values: tuple[str, ...], before: str, after: str) -> None:
    error = InvalidValue(child("spec", "values"), values, "is wrong")
    shown = [error.text(rules_of(minor).wording) for minor in (33, 34)]
    assert shown == [f"spec.values: Invalid value: {text}: is wrong" for text in (before, after)]


def test_keys_are_label_keys_from_1_35_on() -> None:
    error = InvalidLabelKey("key", "a/b/c")
    begins = [error.text(rules_of(minor).wording)[: len(start)] for minor, start in zip((34, 35), STARTS, strict=True)]
    assert begins == STARTS


STARTS = [
    'key: Invalid value: "a/b/c": a qualified name must consist of',
    'key: Invalid value: "a/b/c": a valid label key must consist of',
]


def test_an_aggregate_names_each_error_once() -> None:
    assert [aggregate(errors) for errors in ([], ["a", "a"], ["b", "a", "b"])] == ["", "a", "[b, a]"]
    assert described([UnknownOperator("Has"), UnknownOperator("Has")], NEWEST) == (
        '"Has" is not a valid label selector operator'
    )

import json
from pathlib import Path
from typing import Any

import pytest

from extender_service.config.problems import ConfigError
from extender_service.config.syntax import parse

GOLDEN = json.loads((Path(__file__).parent / "golden" / "scalars.json").read_text())


@pytest.mark.parametrize(("text", "value"), GOLDEN, ids=[text for text, _ in GOLDEN])
def test_plain_scalar_means_what_it_means_to_kubernetes(text: str, value: dict[str, Any]) -> None:
    parsed, problems = parse(f"a: {text}\n")
    assert json.dumps(parsed) == json.dumps(value)
    assert problems == []


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a: 1\nb: {c: 1}\na: 2\n", "a"),
        ("a:\n- b: {c: 1, d: 2, c: 3}\n", "a[0].b.c"),
        ("1: x\n'1': y\n", "1"),
        ("base: &b {c: 1}\nother: {<<: *b, c: 2}\n", "other.c"),
        ("bases: [&a {c: 1}, &b {c: 2}]\nother: {<<: [*a, *b]}\n", "other.c"),
        ('{"a": {"b": [{"c": 1, "c": 1}]}}', "a.b[0].c"),
    ],
)
def test_field_that_occurs_twice_is_found(text: str, path: str) -> None:
    _, problems = parse(text)
    assert [problem.path for problem in problems] == [path]


def test_merge_key_brings_the_fields_of_another_mapping() -> None:
    parsed, problems = parse("base: &b {c: 1}\nother: {<<: *b, d: 2}\n")
    assert parsed["other"] == {"c": 1, "d": 2}
    assert problems == []


@pytest.mark.parametrize("text", ["a:\t1\n", "a: 1\t# one\n", "a: 1\t\n", "a:\t\t1 \t# one\n"])
def test_tabs_behind_a_name_or_a_value_count_as_spaces(text: str) -> None:
    assert parse(text) == ({"a": 1}, [])


def test_a_tab_does_not_indent() -> None:
    with pytest.raises(ConfigError, match=r"not valid YAML: .*line 2, column 1"):
        parse("a:\n\tb: 1\n")


def test_an_alias_stands_for_the_last_definition_of_its_anchor() -> None:
    parsed, problems = parse("a: &x 1\nb: *x\nc: &x [2]\nd: *x\n")
    assert parsed == {"a": 1, "b": 1, "c": [2], "d": [2]}
    assert problems == []
    with pytest.raises(ConfigError, match="contains itself"):
        parse("a: &x 1\nb: &x [*x]\n")


BILLION_LAUGHS = "a0: &a0 [lol]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))
MERGED_LAUGHS = "a0: &a0 {x: y}\n" + "".join(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 40))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not valid YAML"),
        ("a: &a [*a]", "contains itself"),
        ("a: &a {b: *a}", "contains itself"),
        ("a: &a {<<: *a}", "line 1: an anchor's value contains itself"),
        (BILLION_LAUGHS, "with its aliases replaced, the document has more than 16,777,216 bytes; use fewer aliases"),
        (MERGED_LAUGHS, "with its aliases replaced, the document has more than 16,777,216 bytes; use fewer aliases"),
        ("a: " + "[" * 10_000, "nested too deeply"),
        ('{"a": ' + "[" * 100_000, "nested too deeply"),
        ("a: {<<: 3}", "only mappings can be merged"),
        ("? [a]\n: b\n", "a key must be text"),
        ("~: b\n", "a key must be text"),
        ('{"a": NaN}', "NaN is not a number"),
        ('{"a": 1', "not valid JSON"),
        ("\0", "not valid YAML"),
    ],
)
def test_bad_syntax_is_said_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


def test_nothing_is_null() -> None:
    assert parse("") == (None, [])
    assert parse("# only a comment\n") == (None, [])

import time

import pytest
import yaml

from extender_service.kube.parsing.yaml_documents import (
    MOST_EXPANDED_BYTES,
    AliasError,
    ManifestLoader,
    check_aliases,
)


def load(text: str) -> object:
    return yaml.load(text.encode(), ManifestLoader)


def test_an_alias_stands_for_the_value_of_its_anchor() -> None:
    assert load("a: &x [1, {b: c}]\nd: *x\ne: {<<: {f: g}}") == {
        "a": [1, {"b": "c"}],
        "d": [1, {"b": "c"}],
        "e": {"f": "g"},
    }


def test_an_anchor_may_be_defined_once_more() -> None:
    assert load("a: &x 1\nb: *x\nc: &x {d: e}\nf: *x\n") == {"a": 1, "b": 1, "c": {"d": "e"}, "f": {"d": "e"}}


@pytest.mark.parametrize("text", ["&a [*a]", "&a {b: *a}", "&a {b: [{c: *a}]}", "&a {<<: *a}", "? &a [*a]\n: b"])
def test_an_anchor_that_contains_itself_is_refused(text: str) -> None:
    with pytest.raises(AliasError, match="line 1: an anchor's value contains itself"):
        load(text)


def test_a_template_may_be_repeated_often() -> None:
    pods = "\n".join("- *pod" for _ in range(10_000))
    repeated = load(f"pod: &pod {{kind: Pod, spec: {{containers: [{{name: a, image: b}}]}}}}\npods:\n{pods}\n")
    assert isinstance(repeated, dict)
    assert len(repeated["pods"]) == 10_000


def test_a_long_value_that_is_repeated_counts_with_its_length() -> None:
    text = "a: &a " + "x" * (MOST_EXPANDED_BYTES // 100) + "\nb: [" + ", ".join(["*a"] * 110) + "]"
    with pytest.raises(AliasError, match="more than 16,777,216 bytes"):
        load(text)


def test_aliases_are_counted_without_following_each() -> None:
    # 2**5000 values when expanded, in a chain that is too deep to recurse.
    lines = [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 5000)]
    document = yaml.compose("\n".join(["a0: &a0 [lol]", *lines]))
    assert document is not None
    begun_at = time.process_time()
    with pytest.raises(AliasError):
        check_aliases(document)
    assert time.process_time() - begun_at < 5


def test_each_document_is_checked_by_itself() -> None:
    loaded = yaml.load_all(b"a: &a 1\n---\nb: &a [*a]\n", ManifestLoader)
    assert next(loaded) == {"a": 1}
    with pytest.raises(AliasError, match="line 3"):
        next(loaded)


@pytest.mark.parametrize("value", ["!!int ''", "!!int SECRET", "!!bool x", "!!timestamp x", "!!float x", "1" * 5000])
def test_a_value_that_is_not_of_its_tag_is_placed_and_not_quoted(value: str) -> None:
    with pytest.raises(yaml.MarkedYAMLError) as error:
        load(f"a: {value}")
    mark = error.value.problem_mark
    assert mark is not None
    assert (mark.line, mark.column) == (0, 3)
    assert "a value cannot be read as" in (error.value.problem or "")
    assert "SECRET" not in str(error.value)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender_service.kube.parsing.label_syntax import V1_31, label_key_faults, label_value_faults, quoted


@pytest.mark.parametrize("key", ["app", "A", "a.b_c-d", "example.com/zone", "k" * 63, "p" * 253 + "/k", "a/1"])
def test_valid_keys_have_no_fault(key: str) -> None:
    assert label_key_faults(key) == []


@pytest.mark.parametrize(
    ("key", "starts"),
    [
        ("", ["name part must be non-empty", "name part must consist of"]),
        ("-a", ["name part must consist of"]),
        ("a\n", ["name part must consist of"]),
        ("k" * 64, ["name part must be no more than 63 characters"]),
        ("/a", ["prefix part must be non-empty"]),
        ("Example.com/a", ["prefix part a lowercase RFC 1123 subdomain"]),
        ("p" * 254 + "/a", ["prefix part must be no more than 253 characters"]),
        ("a/b/c", ["a qualified name must consist of"]),
    ],
)
def test_each_fault_of_a_key_is_named(key: str, starts: list[str]) -> None:
    faults = label_key_faults(key)
    assert len(faults) == len(starts)
    assert all(fault.startswith(start) for fault, start in zip(faults, starts, strict=True))


def test_later_releases_ask_for_a_label_key_and_not_for_a_qualified_name() -> None:
    before, after = label_key_faults("a/b/c"), label_key_faults("a/b/c", V1_31._replace(label_keys_by_name=True))
    assert after == [before[0].replace("a qualified name must", "a valid label key must")] != before


@pytest.mark.parametrize("value", ["", "a", "5", "a.b_c-d", "v" * 63])
def test_valid_values_have_no_fault(value: str) -> None:
    assert label_value_faults(value) == []


def test_length_is_counted_in_bytes() -> None:
    assert label_value_faults("ü" * 32)[0] == "must be no more than 63 characters"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a"b\\', '"a\\"b\\\\"'),
        ("\x00\x7f", '"\\x00\\x7f"'),
        ("ü\u2028", '"ü\\u2028"'),
        ("\U000e0001", '"\\U000e0001"'),
    ],
)
def test_quoting(text: str, expected: str) -> None:
    assert quoted(text) == expected


@given(st.text(st.characters(max_codepoint=127)))
def test_quoted_text_is_one_printable_line(text: str) -> None:
    assert quoted(text).isprintable()

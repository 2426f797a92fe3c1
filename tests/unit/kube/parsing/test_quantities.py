import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender_service.kube.parsing.quantities import QuantityError, milli_value, parse_quantity, whole_value

GOLDEN = Path(__file__).parent / "golden" / "quantities.jsonl"


def test_every_text_counts_as_in_kubernetes() -> None:
    lines = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    assert len(lines) > 2000
    for text, *expected in lines:
        try:
            nanos = parse_quantity(text)
        except QuantityError:
            assert not expected, text
        else:
            assert [whole_value(nanos), milli_value(nanos)] == expected, text


@pytest.mark.parametrize(
    ("raw", "nanos"),
    [
        ("100m", 100_000_000),
        ("1.5Gi", 1_610_612_736 * 10**9),
        ("2e3", 2000 * 10**9),
        (4, 4 * 10**9),
        (0.1, 100_000_000),
        (1e22, 10**31),
        (1e-7, 100),
        ("0.1n", 1),
        ("-0.1n", -1),
        ("100Ei", (2**63 - 1) * 10**9),
        ("1e50", 10**59),
        ("1e64", 10**73),
        ("0." + "3" * 100, 333_333_334),
        ("0." + "3" * 99 + "e50", int("3" * 59) + 1),
    ],
)
def test_amounts_are_in_nano_units(raw: str | float, nanos: int) -> None:
    assert parse_quantity(raw) == nanos


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("", "quantity '' must be a number with an optional suffix"),
        ("1 Gi", "quantity '1 Gi' must be a number with an optional suffix"),
        ("1K", "quantity '1K' has an unknown suffix 'K'"),
        ("1kk", "quantity '1kk' has an unknown suffix 'kk'"),
        ("Ei", "quantity 'Ei' has no digits"),
        ("1" * 5000, "has more than 1000 characters"),
        (float("nan"), "quantity 'nan' must be a number"),
    ],
)
def test_a_malformed_text_is_named_in_the_error(raw: str | float, message: str) -> None:
    with pytest.raises(QuantityError) as error:
        parse_quantity(raw)
    assert message in str(error.value)


def test_huge_exponents_are_cheap() -> None:
    assert whole_value(parse_quantity("1e2147483647")) == 0
    assert parse_quantity("1e-2147483648") == 1


@given(st.integers(-(10**27), 10**27))
def test_any_whole_number_of_nanos_is_read_exactly(nanos: int) -> None:
    assert parse_quantity(f"{nanos}n") == nanos


@given(st.decimals(-(10**9), 10**9, places=12))
def test_finer_than_nano_is_rounded_away_from_zero(number: object) -> None:
    picos = int(f"{number:.12f}".replace(".", ""))
    nanos = parse_quantity(f"{number:.12f}")
    assert abs(picos) <= abs(nanos) * 1000 < abs(picos) + 1000


@given(st.lists(st.integers(0, 10**15), max_size=8))
def test_a_sum_is_rounded_once(amounts: list[int]) -> None:
    total = sum(parse_quantity(f"{amount}n") for amount in amounts)
    assert milli_value(total) * 10**6 - 10**6 < sum(amounts) <= milli_value(total) * 10**6
    assert milli_value(total) <= sum(milli_value(amount) for amount in amounts)


@given(st.integers(0, (2**63 - 1) * 10**6))
def test_rounding_is_the_same_on_both_sides_of_zero(nanos: int) -> None:
    assert milli_value(-nanos) == -milli_value(nanos)
    assert whole_value(-nanos) == -whole_value(nanos)

import pytest

from bench.figures import Times, alternately, at_least, at_most, compared, over_rounds, quantile


@pytest.mark.parametrize(
    ("values", "fraction", "expected"),
    [
        ([5.0], 0.99, 5.0),
        ([3.0, 1.0, 2.0], 0.5, 2.0),
        ([4.0, 1.0, 3.0, 2.0], 0.5, 2.5),
        ([*map(float, range(101))], 0.99, 99.0),
        ([1.0, 2.0], 0.0, 1.0),
        ([1.0, 2.0], 1.0, 2.0),
        ([1.0, 2.0, 4.0], 0.25, 1.5),
    ],
)
def test_a_quantile_lies_among_the_values(values: list[float], fraction: float, expected: float) -> None:
    assert quantile(values, fraction) == expected


@pytest.mark.parametrize("count", range(2, 10))
def test_the_lower_quartile_lies_as_deep_as_the_upper_one_lies_high(count: int) -> None:
    values = [float(number**2) for number in range(count)]
    assert quantile(values, 0.25) == pytest.approx(-quantile([-value for value in values], 0.75))


def test_sides_take_turns_and_neither_is_always_first() -> None:
    order: list[str] = []

    def side(name: str) -> int:
        order.append(name)
        return len(order)

    answers = alternately(3, lambda: side("a"), lambda: side("b"))

    assert "".join(order) == "abbaab"
    assert answers == [[1, 4, 5], [2, 3, 6]]


def test_rounds_are_summed_up_by_their_medians_case_by_case() -> None:
    rounds = [
        {"plain": Times(1, 9), "spread": Times(4, 4)},
        {"plain": Times(30, 3), "spread": Times(5, 5)},
        {"plain": Times(2, 6), "spread": Times(6, 6)},
    ]
    assert over_rounds(rounds) == {"plain": Times(2, 6), "spread": Times(5, 5)}


def test_a_service_that_takes_half_the_time_is_twice_as_fast() -> None:
    row = compared(Times(2, 3), Times(4, 5), 1.5)
    assert row == {
        "p50": 2,
        "p99": 3,
        "peer p50": 4,
        "peer p99": 5,
        "times faster": 2.0,
        "target": ">= 1.5",
        "reached": True,
    }


def test_without_a_peer_nothing_is_reached_or_missed() -> None:
    row = compared(Times(2, 3), None, 1.5)
    assert (row["times faster"], row["target"], row["reached"]) == (None, ">= 1.5", None)


def test_what_lies_on_the_limit_is_reached() -> None:
    assert at_most("value", 50.0, 50)["reached"] is True
    assert at_most("value", 50.1, 50)["reached"] is False
    assert at_least("value", 20_000.0, 20_000)["reached"] is True
    assert at_least("value", 19_999.0, 20_000)["reached"] is False
    assert at_least("value", 1.0, None)["reached"] is None

"""What counts as a leak, or as slower than before."""

import pytest

from tests.soak import figures
from tests.soak.figures import Figure, Sample, Table
from tests.soak.scheduler import Call

RESIDENT_KIB = 200_000.0


def growth(kib_a_minute: float) -> Figure:
    samples = [Sample(at, RESIDENT_KIB + kib_a_minute * at / 60, 0.0) for at in range(0, 600, 5)]
    return next(figure for figure in figures.memory(samples, 120.0) if figure.name.startswith("its growth"))


@pytest.mark.parametrize(("kib_a_minute", "is_fine"), [(0, True), (-50, True), (160, True), (180, False)])
def test_memory_may_grow_by_a_twentieth_in_an_hour(kib_a_minute: float, is_fine: bool) -> None:
    assert growth(kib_a_minute).is_fine is is_fine
    assert growth(kib_a_minute).value == f"{kib_a_minute} ± 0"


@pytest.mark.parametrize(("kib_a_minute", "is_fine"), [(0, True), (2800, False)])
def test_what_is_within_the_ups_and_downs_of_memory_is_no_leak(kib_a_minute: float, is_fine: bool) -> None:
    # Half a minute up, half a minute down, by two percent.
    samples = [
        Sample(at, RESIDENT_KIB + kib_a_minute * at / 60 + 4000 * (at // 30 % 3), 0.0) for at in range(0, 600, 5)
    ]
    [figure] = [figure for figure in figures.memory(samples, 120.0) if figure.name.startswith("its growth")]
    slope, _, chance = figure.value.partition(" ± ")
    assert float(chance) > 200
    assert abs(float(slope) - kib_a_minute) < float(chance)
    assert figure.is_fine is is_fine


def test_what_happens_before_memory_has_settled_does_not_count() -> None:
    samples = [Sample(at, RESIDENT_KIB if at >= 120 else 1000 * at, 0.0) for at in range(0, 600, 5)]
    assert [figure.is_fine for figure in figures.memory(samples, 120.0)] == [None, None, True]


def test_a_burst_is_no_leak() -> None:
    samples = [Sample(at, RESIDENT_KIB + (20_000 if 480 <= at < 500 else 0), 0.0) for at in range(0, 600, 5)]
    assert [figure.is_fine for figure in figures.memory(samples, 120.0)] == [None, None, True]


def test_processor_time_is_that_of_the_beginning_and_the_end() -> None:
    samples = [Sample(at, RESIDENT_KIB, 0.25 * at if at <= 300 else at - 225) for at in range(0, 601, 5)]
    assert figures.processor(samples, 60.0).value == "0.25 / 1.00"


@pytest.mark.parametrize(("last", "is_fine"), [(3.0, True), (1.0, True), (3.1, False)])
def test_the_slowest_of_the_last_calls_are_held_against_those_of_the_first(last: float, is_fine: bool) -> None:
    calls = [Call("filter", float(at), 2.0 if at < 60 else last) for at in range(600)]
    calls.append(Call("prioritize", 599.0, 1000.0))
    *_, ratio = figures.latency(calls, 0.0, 600.0, 60.0)
    assert (ratio.value, ratio.is_fine) == (f"{last / 2:.2f}", is_fine)


@pytest.mark.parametrize(
    ("after", "is_fine"), [(Table(5, None), True), (Table(6, None), False), (Table(6, 6), True), (Table(7, 6), False)]
)
def test_tables_are_as_before_or_within_their_limits(after: Table, is_fine: bool) -> None:
    before, peak = {"images": Table(5, after.limit)}, {"images": Table(100, after.limit)}
    [figure] = figures.tables(before, peak, {"images": after})
    assert figure.is_fine is is_fine
    assert figure.value == f"5 / 100 / {after.entries}"

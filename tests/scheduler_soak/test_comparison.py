"""When two schedulers have counted the same."""

import pytest

from tests.scheduler_soak.comparison import compare
from tests.scheduler_soak.measures import Counts


def scheduled(count: int) -> Counts:
    return Counts({"scheduled": count}, {}, {})


@pytest.mark.parametrize(
    ("stock", "ours", "is_fine"),
    [
        (10_000, 11_000, True),
        (10_000, 11_001, False),
        (10_000, 8_999, False),
        (100, 142, True),  # three times the root of 242 are 46.7
        (100, 150, False),
        (0, 9, True),
        (0, 10, False),
    ],
)
def test_counts_may_differ_by_a_tenth_or_by_what_chance_does(stock: int, ours: int, is_fine: bool) -> None:
    [figure] = compare([scheduled(stock)], [scheduled(ours)])
    assert figure.is_fine is is_fine


@pytest.mark.parametrize(
    ("ours", "is_fine"),
    [
        ([100, 200, 300, 400], True),
        ([150, 300, 450, 600], False),  # half as many again, each time
        ([140, 150, 330, 450], True),  # now more, now fewer
    ],
)
def test_chance_is_seen_in_how_differences_vary(ours: list[int], is_fine: bool) -> None:
    [figure] = compare([*map(scheduled, [100, 200, 300, 400])], [*map(scheduled, ours)])
    assert figure.is_fine is is_fine


def test_events_are_judged_and_their_queues_are_shown() -> None:
    stock = Counts({}, {}, {("NodeAdd", "active"): 9_000, ("NodeAdd", "backoff"): 1_000})
    ours = Counts({}, {}, {("NodeAdd", "backoff"): 10_500})
    event, active, backoff = compare([stock], [ours])
    assert (event.name, event.value.split(), event.is_fine) == ("incoming NodeAdd", ["10000", "10500", "1.050"], True)
    assert (active.value.split(), active.is_fine) == (["9000", "0", "0.000"], None)
    assert (backoff.value.split(), backoff.is_fine) == (["1000", "10500", "10.500"], None)


def test_an_event_that_only_one_has_counted_differs() -> None:
    [figure, _] = compare([Counts({}, {}, {})], [Counts({}, {}, {("PodAdd", "active"): 20})])
    assert (figure.name, figure.is_fine) == ("incoming PodAdd", False)


def test_pods_that_stay_where_they_are_are_shown_and_not_judged() -> None:
    stock = Counts({}, {}, {("UnschedulablePodUpdate", "active"): 20, ("UnschedulablePodUpdate", "unschedulable"): 900})
    ours = Counts({}, {}, {("UnschedulablePodUpdate", "active"): 20, ("UnschedulablePodUpdate", "unschedulable"): 600})
    event, _, stays = compare([stock], [ours])
    assert (event.value.split(), event.is_fine) == (["20", "20", "1.000"], True)
    assert (stays.value.split(), stays.is_fine) == (["900", "600", "0.667"], None)

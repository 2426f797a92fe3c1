import pytest

from extender_service.serving.refusals import Refusals


def test_refusals_are_told_once_a_second_and_counted_always(caplog: pytest.LogCaptureFixture) -> None:
    seconds = 0.0
    refusals = Refusals(lambda: seconds)
    for _ in range(5):
        refusals.add("protocol", "http request")
    refusals.add("name", "not allowed")  # a flood of another kind does not hide it
    seconds = 1.0
    refusals.add("protocol", "http request")
    assert {reason: count for reason, count in refusals.counts.items() if count} == {"name": 1, "protocol": 6}
    logged = [(vars(each)["reason"], vars(each)["not_logged_before"]) for each in caplog.records]
    assert logged == [("protocol", 0), ("name", 0), ("protocol", 4)]

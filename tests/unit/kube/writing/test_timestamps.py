import pytest

from extender_service.kube.writing.timestamps import micro_time, rfc3339


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_800_000_000.9, "2027-01-15T08:00:00Z"),
        (1_830_297_599.999, "2027-12-31T23:59:59Z"),
        (951_782_400.5, "2000-02-29T00:00:00Z"),
        (-0.5, "1969-12-31T23:59:59Z"),
        (-62_135_596_800, "0001-01-01T00:00:00Z"),
    ],
)
def test_a_time_is_cut_to_whole_seconds(seconds: float, text: str) -> None:
    assert rfc3339(seconds) == text


def test_a_micro_time_is_cut_to_microseconds() -> None:
    assert micro_time(1_800_000_000_000_001_999) == "2027-01-15T08:00:00.000001Z"
    assert micro_time(-1) == "1969-12-31T23:59:59.999999Z"

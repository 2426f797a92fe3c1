import pytest

from extender_service.kube.types.versions import shows_version, version_number


@pytest.mark.parametrize(
    ("version", "number"), [("12", 12), ("", 0), ("-3", 0), ("+3", 0), ("1_0", 0), ("٣", 0), ("a", 0), ("9" * 20, 0)]
)
def test_a_version_is_a_number_and_what_is_none_is_newer_than_nothing(version: str, number: int) -> None:
    assert version_number(version) == number


@pytest.mark.parametrize(
    ("seen", "version", "shows"),
    [("9", "9", True), ("10", "9", True), ("9", "10", False), ("a", "a", True), ("a", "9", False), ("9", "a", False)],
)
def test_an_object_shows_a_version_if_it_is_seen_at_that_one_or_at_a_later_one(
    seen: str, version: str, shows: bool
) -> None:
    assert shows_version(seen, version) == shows

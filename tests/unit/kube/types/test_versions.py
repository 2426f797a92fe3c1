import pytest

from extender_service.kube.types.versions import version_number


@pytest.mark.parametrize(
    ("version", "number"), [("12", 12), ("", 0), ("-3", 0), ("+3", 0), ("1_0", 0), ("٣", 0), ("a", 0), ("9" * 20, 0)]
)
def test_a_version_is_a_number_and_what_is_none_is_newer_than_nothing(version: str, number: int) -> None:
    assert version_number(version) == number

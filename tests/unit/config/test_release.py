import pytest

from extender_service.config.release import nearest_minor, parse_emulated_version, version_of


@pytest.mark.parametrize(("text", "minor"), [("1.31", 31), ("v1.37", 37), ("kube=1.34", 34), (" 1.35 ", 35)])
def test_a_release_is_named_as_for_kubernetes_components(text: str, minor: int) -> None:
    assert parse_emulated_version(text) == minor
    assert parse_emulated_version(version_of(minor)) == minor


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1.30", "1.30 is not within 1.31 and 1.37"),
        ("1.38", "1.38 is not within 1.31 and 1.37"),
        ("1.34.4", "patch version not allowed, got: 1.34.4, write 1.34"),
        ("wardle=1.34", "component 'wardle' is not known: write kube=1.34, or 1.34"),
        ("2.31", "'2.31' is not a version: write major.minor, such as 1.37"),
        ("1.034", "'1.034' is not a version"),
        ("1.99999999999", "is not a version"),
        ("", "'' is not a version"),
        ("1", "'1' is not a version"),
    ],
)
def test_other_versions_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_emulated_version(text)


def test_the_nearest_release_can_be_followed() -> None:
    assert [nearest_minor(minor) for minor in (9, 30, 31, 34, 37, 38)] == [31, 31, 31, 34, 37, 37]

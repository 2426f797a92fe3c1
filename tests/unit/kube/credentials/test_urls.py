import pytest

from extender_service.kube.credentials.urls import without_user


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://10.0.0.1:8080/prefix", "http://10.0.0.1:8080/prefix"),
        ("https://anna:secret@c:6443/prefix", "https://c:6443/prefix"),
        ("https://token@c", "https://c"),
        ("https://anna:se@cret@[::1]:6443", "https://[::1]:6443"),
        ("https://c/a@b//c@d?e=//f@g", "https://c/a@b//c@d?e=//f@g"),
        ("//anna:secret@c", "//c"),
        ("", ""),
    ],
)
def test_a_url_is_shown_without_user_and_password(url: str, shown: str) -> None:
    assert without_user(url) == shown

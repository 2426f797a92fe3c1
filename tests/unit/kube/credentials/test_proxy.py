import pytest

from extender_service.kube.credentials.proxy import environment_proxy


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def test_without_variables_there_is_no_proxy() -> None:
    assert environment_proxy("https://api.example.com") == ""


def test_the_scheme_of_the_server_chooses_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://secure:3128")
    monkeypatch.setenv("http_proxy", "plain:3128")
    assert environment_proxy("https://api.example.com") == "http://secure:3128"
    assert environment_proxy("http://api.example.com") == "http://plain:3128"


@pytest.mark.parametrize("server", ["https://localhost:6443", "https://127.0.0.1:6443", "https://[::1]:6443"])
def test_this_machine_is_reached_directly(monkeypatch: pytest.MonkeyPatch, server: str) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    assert environment_proxy(server) == ""


@pytest.mark.parametrize(
    ("no_proxy", "server", "direct"),
    [
        ("*", "https://api.example.com", True),
        ("10.96.0.0/12", "https://10.96.0.1:443", True),
        ("10.96.0.0/12", "https://10.112.0.1:443", False),
        ("10.96.0.1", "https://10.96.0.1", True),
        ("10.96.0.1:6443", "https://10.96.0.1:6443", True),
        ("10.96.0.1:6443", "https://10.96.0.1:443", False),
        ("fd00::/8", "https://[fd00::1]:6443", True),
        ("fd00::1", "https://[fd00::1]:6443", True),
        ("[fd00::1]:6443", "https://[fd00::1]:6443", True),
        ("example.com", "https://example.com", True),
        ("example.com", "https://api.example.com", True),
        ("example.com", "https://notexample.com", False),
        (".example.com", "https://api.example.com", True),
        (".example.com", "https://example.com", False),
        ("*.example.com", "https://api.example.com", True),
        ("other.org, EXAMPLE.com:443", "https://api.example.com", True),
        ("example.com:6443", "https://api.example.com", False),
        ("not/a/network,,", "https://10.0.0.1", False),
    ],
)
def test_no_proxy_means_what_it_means_to_go(
    monkeypatch: pytest.MonkeyPatch, no_proxy: str, server: str, *, direct: bool
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert environment_proxy(server) == ("" if direct else "http://proxy:3128")

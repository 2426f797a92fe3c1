import logging
import socket
from pathlib import Path
from typing import Any

import pytest
import trustme

from extender_service.command.serve.listeners import Listeners
from extender_service.command.start_error import StartError
from tests.support.serve_options import mutual_tls, serve_options
from tests.support.servers.certificates import issue, overwrite, pem_files

AUTHORITY = trustme.CA()


@pytest.fixture
def tls(tmp_path: Path) -> dict[str, Any]:
    """The options of mutual TLS."""
    overwrite(tmp_path, pem_files(issue(AUTHORITY, "127.0.0.1"), AUTHORITY))
    return mutual_tls(tmp_path)


def refusal(**options: Any) -> str:
    """What is said instead of listening."""
    with pytest.raises(StartError) as raised, Listeners(serve_options([], **options)):
        pass
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(("address", "host"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
@pytest.mark.parametrize(("option", "port"), [("--port", "port"), ("--healthz-port", "healthz_port")])
def test_a_port_that_is_in_use_is_named(address: str, host: str, option: str, port: str) -> None:
    with socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as taken:
        number = taken.getsockname()[1]
        said = refusal(bind_address=address, **{port: number})
    assert said == f"{option}: {host}:{number} is in use by another program; give another port, or 0 for any"


@pytest.mark.parametrize("address", ["192.0.2.1", "not an address"])
def test_an_address_of_another_machine_is_named(address: str) -> None:
    assert refusal(bind_address=address).startswith(f"--bind-address, --port: cannot listen on {address}:0: ")


def test_on_loopback_nobody_needs_to_show_who_they_are(caplog: pytest.LogCaptureFixture) -> None:
    with Listeners(serve_options([], bind_address="127.0.0.1")) as listeners:
        assert listeners.probes is None
        assert listeners.certificates is None
        assert set(listeners.refusals.values()) == {0}
        assert listeners.urls == {"url": f"http://127.0.0.1:{listeners.calls.getsockname()[1]}"}
    assert not caplog.records


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_elsewhere_strangers_may_not_call(address: str, tls: dict[str, Any]) -> None:
    assert f"any client that reaches {address} could bind pods" in refusal(bind_address=address)
    only_ours = tls | {"client_ca_file": None}
    assert f"any client that reaches {address} could bind pods" in refusal(bind_address=address, **only_ours)


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_elsewhere_with_client_certificates(address: str, tls: dict[str, Any]) -> None:
    with Listeners(serve_options([], bind_address=address, healthz_port=0, **tls)) as listeners:
        assert listeners.url.startswith("https://")


def refused_headers(listeners: Listeners, listener: socket.socket | None, host: bytes) -> list[str]:
    """The headers for which a request with this Host is refused, and one with an Origin, too."""
    assert listener is not None
    guard = listeners.guard(listener)
    refused = [guard.refuse([(b"host", host)]), guard.refuse([(b"origin", b"null")])]
    return [each.header for each in refused if each is not None]


def test_on_loopback_a_web_page_cannot_call_by_a_name_of_its_own() -> None:
    with Listeners(serve_options([], bind_address="localhost", healthz_port=0)) as listeners:
        for listener in (listeners.calls, listeners.probes):
            assert refused_headers(listeners, listener, b"evil.example") == ["host", "origin"]
            assert refused_headers(listeners, listener, b"127.0.0.1:8888") == ["origin"]


def test_over_tls_the_certificate_says_what_it_is_called(tls: dict[str, Any]) -> None:
    with Listeners(serve_options([], healthz_port=0, **tls)) as listeners:
        assert refused_headers(listeners, listeners.calls, b"extender.example") == ["origin"]
        assert refused_headers(listeners, listeners.probes, b"extender.example") == ["host", "origin"]


def test_elsewhere_any_name_may_lead_here() -> None:
    options = serve_options([], bind_address="0.0.0.0", insecure_serving=True, healthz_port=0)
    with Listeners(options) as listeners:
        for listener in (listeners.calls, listeners.probes):
            assert refused_headers(listeners, listener, b"extender.example") == ["origin"]


def test_elsewhere_without_any_protection_if_told_so(caplog: pytest.LogCaptureFixture) -> None:
    with Listeners(serve_options([], bind_address="0.0.0.0", insecure_serving=True)):
        pass
    assert [each.levelno for each in caplog.records] == [logging.WARNING]


def test_probes_have_a_port_of_their_own_with_client_certificates(tls: dict[str, Any]) -> None:
    with Listeners(serve_options([], healthz_port=0, **tls)) as listeners:
        assert listeners.probes is not None
        calls, probes = (each.getsockname()[1] for each in (listeners.calls, listeners.probes))
        assert listeners.urls == {"url": f"https://127.0.0.1:{calls}", "probes_url": f"http://127.0.0.1:{probes}"}


def test_probes_have_a_port_of_their_own_if_told_so() -> None:
    with Listeners(serve_options([], healthz_port=0)) as listeners:
        assert listeners.probes is not None


def test_probes_may_come_from_elsewhere_though_calls_may_not() -> None:
    with Listeners(serve_options([], healthz_bind_address="0.0.0.0", healthz_port=0)) as listeners:
        assert listeners.probes is not None
        assert listeners.is_loopback
        port = listeners.probes.getsockname()[1]
        for address in ("127.0.0.1", "::1"):
            socket.create_connection((address, port)).close()
        assert listeners.urls["probes_url"].startswith("http://0.0.0.0:")


def test_an_address_of_another_machine_for_probes_is_named() -> None:
    said = refusal(healthz_bind_address="192.0.2.1", healthz_port=0)
    assert said.startswith("--healthz-bind-address, --healthz-port: cannot listen on 192.0.2.1:0: ")


def test_with_our_certificate_alone_probes_are_answered_with_the_calls(tls: dict[str, Any]) -> None:
    with Listeners(serve_options([], **tls | {"client_ca_file": None})) as listeners:
        assert listeners.probes is None
        assert listeners.url.startswith("https://")


@pytest.mark.parametrize(
    ("without", "says"),
    [
        ("tls_cert_file", "--tls-cert-file, --tls-private-key-file: give both"),
        ("tls_private_key_file", "--tls-cert-file, --tls-private-key-file: give both"),
    ],
)
def test_a_certificate_needs_its_key(without: str, says: str, tls: dict[str, Any]) -> None:
    assert refusal(**tls | {without: None}).startswith(says)


def test_options_that_would_protect_nothing_are_refused(tls: dict[str, Any]) -> None:
    assert refusal(client_ca_file=tls["client_ca_file"]).startswith("--client-ca-file: ")
    assert refusal(allowed_names=["a"]).startswith("--allowed-names: ")
    assert refusal(allowed_names=["a"], **tls | {"client_ca_file": None}).startswith("--allowed-names: ")


def test_a_file_that_cannot_be_used_is_named(tls: dict[str, Any]) -> None:
    tls["client_ca_file"].write_text("none")
    assert refusal(**tls) == f"--client-ca-file: {tls['client_ca_file']} has no PEM certificate"

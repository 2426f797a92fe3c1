"""Mutual TLS: a stock kube-scheduler proves itself, strangers are refused, and certificates change under load."""

import http.client
import itertools
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trustme

from tests.e2e.support.objects import Object, node, pod
from tests.e2e.support.programs import schedulers
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.service import Service
from tests.e2e.support.waiting import wait_until
from tests.support.servers.certificates import client_context, issue, mount, pem_files

SCHEDULER = "system:kube-scheduler"
PATHS = ("filter", "prioritize", "preempt", "bind", "livez", "readyz", "healthz", "metrics", "docs", "openapi.json", "")
OPEN_PATHS = ("livez", "readyz", "healthz", "metrics")


def scheduler_certificate(authority: trustme.CA) -> trustme.LeafCert:
    return issue(authority, "kube-scheduler.example.com", common_name=SCHEDULER)


def with_mutual_tls(control_plane: ControlPlane, directory: Path, authority: trustme.CA) -> Service:
    """The service, with a Secret in `directory`/tls that trusts the authority's kube-scheduler."""
    tls = directory / "tls"
    mount(tls, pem_files(issue(authority, "127.0.0.1"), authority))
    files = [
        f"--tls-cert-file={tls}/tls.crt",
        f"--tls-private-key-file={tls}/tls.key",
        f"--client-ca-file={tls}/ca.crt",
    ]
    return Service(
        directory,
        control_plane.kubeconfig,
        options=[*files, f"--allowed-names={SCHEDULER}", "--healthz-port=0"],
        tls=client_context(authority, scheduler_certificate(authority)),
    )


def over_tls(configuration: Object, directory: Path) -> Object:
    """A kube-scheduler's configuration, whose extender it calls with the certificate in `directory`."""
    [extender] = configuration["extenders"]
    files = {"certFile": "tls.crt", "keyFile": "tls.key", "caFile": "ca.crt"}
    tls_config = {field: str(directory / name) for field, name in files.items()}
    return {**configuration, "extenders": [{**extender, "enableHTTPS": True, "tlsConfig": tls_config}]}


def test_a_stock_kube_scheduler_proves_itself_also_after_everything_was_renewed(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    api = control_plane.api
    old, new = trustme.CA(), trustme.CA()
    api.create(*(node(f"node-{number}", cpu="8") for number in range(4)))
    mount(tmp_path / "scheduler", pem_files(scheduler_certificate(old), old, new))

    with with_mutual_tls(control_plane, tmp_path, old) as service:
        configuration = schedulers.replacing(service.url, node_cache_capable=True)
        with schedulers.running(control_plane, over_tls(configuration, tmp_path / "scheduler")):
            api.create(*(pod(f"before-{number}", requests={"cpu": "1"}) for number in range(10)))
            wait_until(lambda: not api.list_all("Pod", field_selector="spec.nodeName="), "all pods to be bound", 60)

            # First trust the new authority besides the old, then show its certificates, then trust it alone.
            mount(tmp_path / "tls", pem_files(issue(old, "127.0.0.1"), old, new))
            wait_for_reloads(service, 1)
            mount(tmp_path / "scheduler", pem_files(scheduler_certificate(new), old, new))
            mount(tmp_path / "tls", pem_files(issue(new, "127.0.0.1"), old, new))
            wait_for_reloads(service, 2)
            mount(tmp_path / "tls", pem_files(issue(new, "127.0.0.1"), new))
            wait_for_reloads(service, 3)

            api.create(*(pod(f"after-{number}", requests={"cpu": "1"}) for number in range(10)))
            wait_until(lambda: not api.list_all("Pod", field_selector="spec.nodeName="), "all pods to be bound", 60)
            assert len(api.list_all("Pod")) == 20
            assert service.requests("filter", "ok") == service.requests("bind", "ok") == 20
            assert service.requests("filter", "error") == service.requests("bind", "error") == 0


@pytest.mark.parametrize(
    ("common_name", "expired", "told", "reason", "logged"),
    [
        (SCHEDULER, True, "remote error: tls: expired certificate", "certificate", "certificate has expired"),
        (
            "system:kube-proxy",
            False,
            ": EOF|connection reset",
            "name",
            "names are not allowed: system:kube-proxy, a.test",
        ),
    ],
    ids=["expired", "not allowed"],
)
def test_a_kube_scheduler_that_may_not_call_is_told_so_and_places_nothing(
    empty_cluster: ControlPlane, tmp_path: Path, common_name: str, expired: bool, told: str, reason: str, logged: str
) -> None:
    api = empty_cluster.api
    authority = trustme.CA()
    shown = issue(authority, "a.test", common_name=common_name, expired=expired)
    api.create(node("a"))
    mount(tmp_path / "scheduler", pem_files(shown, authority))

    with with_mutual_tls(empty_cluster, tmp_path, authority) as service:
        configuration = schedulers.replacing(service.url, node_cache_capable=True)
        with schedulers.running(empty_cluster, over_tls(configuration, tmp_path / "scheduler")) as scheduler:
            api.create(pod("waits"))
            wait_until(lambda: re.search(told, scheduler.log.read_text()), "kube-scheduler to be told")
            assert api.list_all("Pod", field_selector="spec.nodeName=")
        assert service.metric("extender_service_refused_connections_total", reason=reason) > 0
        [warning] = {line["msg"] for line in service.log_lines() if line["level"] == "warning"}
        assert warning.startswith("refused a connection: ")
        assert logged in warning
        assert service.decisions("filter") == []


def test_strangers_are_refused_on_every_path_but_the_probes(empty_cluster: ControlPlane, tmp_path: Path) -> None:
    authority, other = trustme.CA(), trustme.CA()
    strangers = {
        "without a certificate": client_context(authority),
        "expired": client_context(authority, issue(authority, "a.test", common_name=SCHEDULER, expired=True)),
        "of another authority": client_context(authority, scheduler_certificate(other)),
        "by another name": client_context(authority, issue(authority, "a.test", common_name="system:kube-proxy")),
        "plain HTTP": None,
    }
    known = client_context(authority, scheduler_certificate(authority))

    with with_mutual_tls(empty_cluster, tmp_path, authority) as service:
        for who, context in strangers.items():
            for path, method in itertools.product(PATHS, ("GET", "POST")):
                assert not is_answered(service.url, context, path, method), f"{who} was answered: {method} /{path}"
        for path in OPEN_PATHS:
            assert ask(service.probes_url, None, path, "GET") == 200
        for path in set(PATHS) - set(OPEN_PATHS):
            assert ask(service.probes_url, None, path, "POST") == 404
        assert ask(service.url, known, "filter", "POST") == 200

        each = len(PATHS) * 2
        counted = {
            reason: service.metric("extender_service_refused_connections_total", reason=reason)
            for reason in ("certificate", "name", "protocol")
        }
        assert counted == {"certificate": 3 * each, "name": each, "protocol": each}
        # Not one of them came as far as a call.
        assert service.metric("extender_service_requests_total") == 1


def test_certificates_change_under_load_and_no_call_fails(empty_cluster: ControlPlane, tmp_path: Path) -> None:
    authority, next_authority = trustme.CA(), trustme.CA()
    empty_cluster.api.create(node("a"))
    context = client_context(authority, scheduler_certificate(authority))
    next_authority.configure_trust(context)

    with with_mutual_tls(empty_cluster, tmp_path, authority) as service, load(service.url, context) as made:
        for number, trusted in enumerate([*[(authority,)] * 3, *[(authority, next_authority)] * 3], start=1):
            renewed = issue(trusted[-1], "127.0.0.1")
            mount(tmp_path / "tls", pem_files(renewed, *trusted))
            wait_for_reloads(service, number)
            seen = made.new_connections
            wait_until(lambda seen=seen: made.new_connections > seen + 5, "new connections")  # type: ignore[misc]
            assert shown_by(service.url, context) == renewed.cert_chain_pems[0].bytes()
        newcomer = client_context(next_authority, scheduler_certificate(next_authority))
        assert ask(service.url, newcomer, "filter", "POST") == 200
    assert made.failures == []
    assert made.on_kept_connections > 100
    assert made.new_connections > 30


def wait_for_reloads(service: Service, times: int) -> None:
    """Wait until the service has taken up certificates so many times."""

    def reloads() -> int:
        return [line["msg"] for line in service.log_lines()].count("the certificates have changed")

    wait_until(lambda: reloads() >= times, "the certificates to be taken up")


class Load:
    """Calls that were made, and what failed."""

    def __init__(self) -> None:
        self.on_kept_connections = 0
        self.new_connections = 0
        self.failures: list[str] = []
        self.over = False


@contextmanager
def load(url: str, context: ssl.SSLContext) -> Iterator[Load]:
    """Call filter all the time: some callers on one connection each, some with a new one for each call."""
    made = Load()

    def keep_one() -> None:
        connection = connect(url, context)
        while not made.over:
            call(connection, "filter")
            made.on_kept_connections += 1
            time.sleep(0.01)
        connection.close()

    def connect_anew() -> None:
        while not made.over:
            ask(url, context, "filter", "POST")
            made.new_connections += 1
            time.sleep(0.02)

    def noting_failures(what: Callable[[], None]) -> None:
        try:
            what()
        except Exception as error:
            made.failures.append(repr(error))

    callers = [threading.Thread(target=noting_failures, args=[what]) for what in (keep_one, connect_anew) * 2]
    for caller in callers:
        caller.start()
    try:
        yield made
    finally:
        made.over = True
        for caller in callers:
            caller.join()


def connect(url: str, context: ssl.SSLContext | None) -> http.client.HTTPConnection:
    where = urlsplit(url)
    assert where.hostname
    if context is None:
        return http.client.HTTPConnection(where.hostname, where.port, timeout=30)
    return http.client.HTTPSConnection(where.hostname, where.port, timeout=30, context=context)


def call(connection: http.client.HTTPConnection, path: str, method: str = "POST") -> int:
    body = {"Pod": {"metadata": {"name": "p", "uid": "u"}}, "NodeNames": ["a"]} if method == "POST" else None
    connection.request(method, f"/{path}", json.dumps(body) if body else None)
    answer = connection.getresponse()
    text = answer.read()
    if path == "filter" and answer.status == http.HTTPStatus.OK:
        decided: Any = json.loads(text)
        assert decided["Error"] == ""
    return answer.status


def ask(url: str, context: ssl.SSLContext | None, path: str, method: str) -> int:
    """The status of an answer on a connection of its own."""
    connection = connect(url, context)
    try:
        return call(connection, path, method)
    finally:
        connection.close()


def is_answered(url: str, context: ssl.SSLContext | None, path: str, method: str) -> bool:
    """Whether there is any answer, and not the end of the connection."""
    try:
        ask(url, context, path, method)
    except TimeoutError:
        raise
    except (OSError, http.client.HTTPException):
        return False
    return True


def shown_by(url: str, context: ssl.SSLContext) -> bytes:
    """The certificate that a new connection is shown, PEM."""
    connection = connect(url, context)
    connection.connect()
    try:
        assert isinstance(connection.sock, ssl.SSLSocket)
        shown = connection.sock.getpeercert(binary_form=True)
        assert shown
        return ssl.DER_cert_to_PEM_cert(shown).encode()
    finally:
        connection.close()

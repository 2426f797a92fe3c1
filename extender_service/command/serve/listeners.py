"""The listening sockets: one for kube-scheduler's calls, and with mutual TLS a second one for probes."""

import ipaddress
import logging
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from extender_service.command.listening_socket import host_in_url, listen
from extender_service.command.serve.serve_options import ServeOptions
from extender_service.command.serving_certificate import (
    MINIMUM_VERSIONS,
    certificate_and_key,
    serving_certificates,
)
from extender_service.command.start_error import StartError
from extender_service.seams import THIS_MACHINE, Machine
from extender_service.serving.browsers import BrowserGuard
from extender_service.serving.connection_limits import ConnectionLimits, LimitedConnections
from extender_service.serving.refusals import Refusals
from extender_service.serving.server_tls import ServingCertificates, TLSFiles

log = logging.getLogger(__name__)

DEFAULT_HEALTHZ_PORT = 8889


class Listeners:
    """The listening sockets and the serving certificates. The end of the context closes the sockets.

    - `calls`: the socket for kube-scheduler, over TLS if `certificates` is set
    - `probes`: the socket for /livez, /readyz and /metrics over plain HTTP; None if `calls` serves these, too
    - `url`: the URL of `calls`
    - `urls`: the URLs of both sockets, as fields of a log line
    """

    def __init__(self, options: ServeOptions, machine: Machine = THIS_MACHINE) -> None:
        """Open the sockets. Raises StartError, also if clients of other hosts could call without authentication."""
        self._clock = machine.clock
        self._refused = Refusals(machine.clock)
        self.certificates = _certificates(options, self._refused, machine)
        with ExitStack() as opening:
            self.calls = opening.enter_context(listen(machine.listen, options.bind_address, options.port, "--port"))
            _require_protection(options, self.calls)
            self.probes: socket.socket | None = None
            probes_address = options.healthz_bind_address or options.bind_address
            port = options.healthz_port
            if port is None and (options.client_ca_file is not None or options.healthz_bind_address is not None):
                port = DEFAULT_HEALTHZ_PORT
            if port is not None:
                self.probes = opening.enter_context(
                    listen(machine.listen, probes_address, port, "--healthz-port", "--healthz-bind-address")
                )
            self._open = opening.pop_all()
        self._addresses = {self.calls: options.bind_address}
        if self.probes is not None:
            self._addresses[self.probes] = probes_address
        self.url = _url("http" if self.certificates is None else "https", options.bind_address, self.calls)
        self.urls = {"url": self.url}
        if self.probes is not None:
            self.urls["probes_url"] = _url("http", probes_address, self.probes)

    def __enter__(self) -> Self:
        return self

    @property
    def is_loopback(self) -> bool:
        """Whether only processes on this host can call."""
        return _is_loopback(self.calls)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._open.close()

    @property
    def refusals(self) -> Mapping[str, int]:
        """The number of refused connections by reason."""
        return self._refused.counts

    def connections(self, limits: ConnectionLimits) -> LimitedConnections:
        """Return a new table of connections that enforces the limits for one server."""
        return LimitedConnections(limits, self._refused, self._clock)

    def guard(self, listener: socket.socket) -> BrowserGuard:
        """Return what looks at the requests that come to `calls` or `probes`."""
        has_tls = listener is self.calls and self.certificates is not None
        return BrowserGuard(self._addresses[listener] if _is_loopback(listener) and not has_tls else None)

    async def follow(self) -> None:
        """Load the certificate files again when they change, until cancelled. Without TLS, return at once."""
        if self.certificates is not None:
            await self.certificates.follow()


def _certificates(options: ServeOptions, refused: Refusals, machine: Machine) -> ServingCertificates | None:
    given = certificate_and_key(options.tls_cert_file, options.tls_private_key_file)
    if options.client_ca_file is not None and given is None:
        raise StartError("--client-ca-file: client certificates need TLS; give --tls-cert-file, too")
    if options.allowed_names and options.client_ca_file is None:
        raise StartError("--allowed-names: names are checked in client certificates; give --client-ca-file, too")
    if given is None:
        return None
    files = TLSFiles(
        *given,
        options.client_ca_file,
        frozenset(options.allowed_names),
        MINIMUM_VERSIONS[options.tls_min_version],
    )
    return serving_certificates(files, refused, machine)


def _require_protection(options: ServeOptions, listener: socket.socket) -> None:
    """Raise StartError if clients of other hosts could call without authentication."""
    if options.client_ca_file is not None or _is_loopback(listener):
        return
    if not options.insecure_serving:
        raise StartError(
            f"--bind-address: any client that reaches {options.bind_address} could bind pods; give --tls-cert-file, "
            "--tls-private-key-file and --client-ca-file, or --insecure-serving if only kube-scheduler can reach it"
        )
    log.warning("any client that reaches this address can bind pods: no client certificate is required")


def _is_loopback(listener: socket.socket) -> bool:
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback


def _url(scheme: str, address: str, listener: socket.socket) -> str:
    return f"{scheme}://{host_in_url(address)}:{listener.getsockname()[1]}"

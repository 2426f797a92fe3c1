"""Where the service listens: for kube-scheduler, and with mutual TLS on a second port for probes."""

import errno
import ipaddress
import logging
import socket
import ssl
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from extender_service.command.options import ServeOptions
from extender_service.command.start_error import StartError
from extender_service.serving.connection_limits import ConnectionLimits, Connections
from extender_service.serving.refusals import Refusals
from extender_service.serving.server_tls import ServingCertificates, TLSError, TLSFiles

log = logging.getLogger(__name__)

DEFAULT_HEALTHZ_PORT = 8889
_MINIMUM_VERSIONS = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}


class Listeners:
    """The open sockets, until the context ends, and the certificates.

    `calls` is for kube-scheduler; over TLS if there are `certificates`. `probes` is for /livez, /readyz and /metrics,
    over plain HTTP; None if these are answered with the calls. `url` is where to call; `urls` has both, for the log.
    """

    def __init__(self, options: ServeOptions) -> None:
        """Open them. Raises StartError, also where strangers could call."""
        self._refused = Refusals()
        self.certificates = _certificates(options, self._refused)
        with ExitStack() as opening:
            self.calls = opening.enter_context(_listen(options.bind_address, options.port, "--port"))
            _require_protection(options, self.calls)
            self.probes: socket.socket | None = None
            probes_address = options.healthz_bind_address or options.bind_address
            port = options.healthz_port
            if port is None and (options.client_ca_file is not None or options.healthz_bind_address is not None):
                port = DEFAULT_HEALTHZ_PORT
            if port is not None:
                self.probes = opening.enter_context(
                    _listen(probes_address, port, "--healthz-port", "--healthz-bind-address")
                )
            self._open = opening.pop_all()
        self.url = _url("http" if self.certificates is None else "https", options.bind_address, self.calls)
        self.urls = {"url": self.url}
        if self.probes is not None:
            self.urls["probes_url"] = _url("http", probes_address, self.probes)

    def __enter__(self) -> Self:
        return self

    @property
    def is_loopback(self) -> bool:
        """Whether only processes of this machine can call."""
        return _is_loopback(self.calls)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._open.close()

    @property
    def refusals(self) -> Mapping[str, int]:
        """How many connections were refused, by the reason."""
        return self._refused.counts

    def connections(self, limits: ConnectionLimits) -> Connections:
        """Return what holds the connections of a server to limits."""
        return Connections(limits, self._refused)

    async def follow(self) -> None:
        """Take up certificates that change, if there are any."""
        if self.certificates is not None:
            await self.certificates.follow()


def _certificates(options: ServeOptions, refused: Refusals) -> ServingCertificates | None:
    certificate, key = options.tls_cert_file, options.tls_private_key_file
    if (certificate is None) != (key is None):
        raise StartError("--tls-cert-file, --tls-private-key-file: give both, or neither")
    if options.client_ca_file is not None and certificate is None:
        raise StartError("--client-ca-file: clients show certificates over TLS only; give --tls-cert-file, too")
    if options.allowed_names and options.client_ca_file is None:
        raise StartError("--allowed-names: they are those of client certificates; give --client-ca-file, too")
    if certificate is None or key is None:
        return None
    files = TLSFiles(
        certificate,
        key,
        options.client_ca_file,
        frozenset(options.allowed_names),
        _MINIMUM_VERSIONS[options.tls_min_version],
    )
    try:
        return ServingCertificates(files, refusals=refused)
    except TLSError as error:
        raise StartError(str(error)) from error


def _require_protection(options: ServeOptions, listener: socket.socket) -> None:
    """Raise StartError if others than this machine's processes could call without showing who they are."""
    if options.client_ca_file is not None or _is_loopback(listener):
        return
    if not options.insecure_serving:
        raise StartError(
            f"--bind-address: whoever reaches {options.bind_address} could bind pods; give --tls-cert-file, "
            "--tls-private-key-file and --client-ca-file, or --insecure-serving if only kube-scheduler can reach it"
        )
    log.warning("whoever reaches this address can bind pods: nobody is asked for a client certificate")


def _is_loopback(listener: socket.socket) -> bool:
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback


def _listen(address: str, port: int, option: str, address_option: str = "--bind-address") -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    where = f"{_host(address)}:{port}"
    try:
        return socket.create_server((address, port), family=family, backlog=1024)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise StartError(
                f"{option}: {where} is in use by another program; give another port, or 0 for any"
            ) from error
        reason = (error.strerror or str(error)).partition(" (while attempting")[0]
        raise StartError(
            f"{address_option}, {option}: cannot listen on {where}: {reason}; give an address of this machine, "
            "0.0.0.0 or :: for all, and a port that this user may open"
        ) from error


def _url(scheme: str, address: str, listener: socket.socket) -> str:
    return f"{scheme}://{_host(address)}:{listener.getsockname()[1]}"


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address

"""Serves health, metrics and configuration over HTTPS, to callers that the API server knows and allows."""

import asyncio
import json
import logging
import os
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from extender_service.command.listening_socket import listen, reason_without_address
from extender_service.command.schedule_options import (
    AuthenticationOptions,
    AuthorizationOptions,
    ScheduleOptions,
    SecureServingOptions,
)
from extender_service.command.start_error import StartError
from extender_service.kube.api_errors import KubeError
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.connection.rate_limit import TokenBucket
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.credentials.lookup import is_in_cluster, load_credentials
from extender_service.kube.writing.delegated_reviews import client_authorities, review_path, review_token
from extender_service.seams import Machine, WallClock
from extender_service.serving.authentication import Authenticator, ClientAuthorities, ProxyHeaders
from extender_service.serving.authorization import Access, Authorizer, ReviewError
from extender_service.serving.browsers import BrowserGuard
from extender_service.serving.cipher_suites import openssl_ciphers
from extender_service.serving.connection_limits import ConnectionLimits, LimitedConnections
from extender_service.serving.guarded_app import require_authorization
from extender_service.serving.limited_server import server_config
from extender_service.serving.peer_certificates import certificates_of
from extender_service.serving.refusals import Refusals
from extender_service.serving.secure_http import SecureServer
from extender_service.serving.self_signed import self_signed
from extender_service.serving.server_tls import ServingCertificates, TLSError, TLSFiles
from extender_service.serving.users import UnauthenticatedError, UserInfo

log = logging.getLogger(__name__)

# How often the authorities of callers are read again.
_FOLLOW_SECONDS = 10.0
_ANSWER_SECONDS = 10.0
# Few programs connect: the kubelet, Prometheus, and operators.
_LIMITS = ConnectionLimits(connections=200)
# While the API server hangs, callers wait for reviews for long: probes, which need none, must find room beside them.
_MOST_REVIEWS = _LIMITS.connections // 2
# As kube-scheduler limits each of its clients for reviews (apiserver's pkg/server/options).
_REVIEWS_PER_SECOND = 200.0
_REVIEWS_AT_ONCE = 400
_TLS_VERSIONS = {
    "VersionTLS10": ssl.TLSVersion.TLSv1,
    "VersionTLS11": ssl.TLSVersion.TLSv1_1,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
_PAIR_NAME = "kube-scheduler"


class SecureListener:
    """The socket and certificates for HTTPS, and who may call. Its parts are made before anything else starts.

    The end of the context closes the socket.
    `refusals` counts refused connections by reason.
    """

    def __init__(self, options: ScheduleOptions, machine: Machine) -> None:
        """Open the socket and read the certificates. Raises StartError."""
        self._options = options
        try:
            _authorities_of_files(options.authentication)
        except ValueError as error:
            raise StartError(str(error)) from error
        self._machine = machine
        self._reviews = _Reviews()
        self._refused = Refusals(machine.clock)
        self._certificates = _certificates(options.serving, self._refused, machine)
        self._socket = _listen(options.serving)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._socket.close()

    @property
    def refusals(self) -> Mapping[str, int]:
        """The number of refused connections by reason."""
        return self._refused.counts

    @asynccontextmanager
    async def serving(self, routes: Sequence[BaseRoute]) -> AsyncIterator[None]:
        """Answer requests for these routes until the context ends. Contexts may follow each other."""
        async with AsyncExitStack() as clients:
            authenticator, follow = await self._authenticator(clients)
            authorizer = await self._authorizer(clients)
            app = require_authorization(Starlette(routes=routes), authenticator, authorizer, self._refused)
            config = server_config(app, _LIMITS, self._certificates.context)
            connections = LimitedConnections(_LIMITS, self._refused, self._machine.clock)
            server = _SecureServer(config, connections, BrowserGuard(None))
            address = self._socket.getsockname()
            log.info("serving", extra={"address": address[0], "port": address[1]})
            async with asyncio.TaskGroup() as tasks:
                work = (self._certificates.follow(), connections.watch(), follow)
                background = [tasks.create_task(each) for each in work]
                tasks.create_task(server.serve(sockets=[self._socket.dup()]))
                try:
                    yield
                finally:
                    server.should_exit = True
                    for task in background:
                        task.cancel()

    async def _authenticator(self, clients: AsyncExitStack) -> tuple[Authenticator, Any]:
        """Return the authenticator, and the coroutine that keeps its authorities as the API server says."""
        options = self._options.authentication
        client = await _client(clients, options.kubeconfig, "--authentication-kubeconfig", self._machine)
        authenticator = Authenticator(
            None if client is None else partial(_review_token, client, self._reviews),
            cache_seconds=options.cache_seconds,
            clock=self._machine.clock,
            waiting=self._reviews.waiting_for_token,
        )
        clients.callback(authenticator.stop)
        lookup = None if options.skips_lookup else client
        known = _KnownAuthorities(options, authenticator, self._certificates)
        problem = await known.read(lookup)
        if problem is not None:
            if not options.tolerates_lookup_failure:
                raise StartError(f"--authentication-tolerate-lookup-failure: {problem}")
            log.warning("cannot read which authorities vouch for callers", extra={"error": problem})
        return authenticator, known.follow(lookup)

    async def _authorizer(self, clients: AsyncExitStack) -> Authorizer:
        options: AuthorizationOptions = self._options.authorization
        client = await _client(clients, options.kubeconfig, "--authorization-kubeconfig", self._machine)
        return Authorizer(
            None if client is None else partial(_review_access, client, self._reviews),
            open_paths=options.always_allowed_paths,
            allowed_seconds=options.allowed_cache_seconds,
            denied_seconds=options.denied_cache_seconds,
            clock=self._machine.clock,
        )


class _SecureServer(SecureServer):
    """Leaves signals to the scheduler."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Reviews:
    """The reviews under way, by which the API server says who callers are and what they may do.

    Each review takes a place, and so does each further caller that waits for the same review, while it waits.
    """

    def __init__(self) -> None:
        self._taken = 0

    @asynccontextmanager
    async def one_more(self) -> AsyncIterator[None]:
        """Count a review within the context. Raises ReviewError if too many are under way, or it takes too long."""
        try:
            with self._place():
                async with asyncio.timeout(_ANSWER_SECONDS):
                    yield
        except TimeoutError as error:
            raise ReviewError(f"the API server took longer than {_ANSWER_SECONDS:g} s to answer") from error

    @contextmanager
    def waiting_for_token(self) -> Iterator[None]:
        """Count one who waits for another's review within the context. Raises UnauthenticatedError if too many wait."""
        with _as_unauthenticated(), self._place():
            yield

    @contextmanager
    def _place(self) -> Iterator[None]:
        if self._taken >= _MOST_REVIEWS:
            raise ReviewError(f"{_MOST_REVIEWS} other callers wait for the API server's answer")
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1


@contextmanager
def _as_unauthenticated() -> Iterator[None]:
    """Raise UnauthenticatedError where a review of a token fails."""
    try:
        yield
    except (KubeError, CredentialsError, ReviewError) as error:
        raise UnauthenticatedError(f"the token cannot be reviewed: {error}") from error


class _KnownAuthorities:
    """Which authorities vouch for callers: those of the files, and where there are none, what the API server says."""

    def __init__(
        self, options: AuthenticationOptions, authenticator: Authenticator, certificates: ServingCertificates
    ) -> None:
        self._options = options
        self._authenticator = authenticator
        self._certificates = certificates
        self._published: Mapping[str, str] = {}

    async def follow(self, client: KubeClient | None) -> None:
        """Read them again and again; log each new problem."""
        logged: str | None = None
        while True:
            await asyncio.sleep(_FOLLOW_SECONDS)
            problem = await self.read(client)
            if problem is not None and problem != logged:
                log.warning("cannot read which authorities vouch for callers", extra={"error": problem})
            logged = problem

    async def read(self, client: KubeClient | None) -> str | None:
        """Read them once; return why that failed, in which case those known before still count."""
        try:
            if client is not None:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    self._published = await client_authorities(client)
            self._apply()
        except TimeoutError:
            return f"the API server took longer than {_ANSWER_SECONDS:g} s to answer"
        except (KubeError, CredentialsError, TLSError, OSError, ValueError) as error:
            return str(error)
        return None

    def _apply(self) -> None:
        options, published = self._options, self._published
        clients, proxies = _authorities_of_files(options)
        if not clients:
            clients = published.get("client-ca-file", "")
        headers = ProxyHeaders(
            options.request_header_names,
            _lower(options.username_headers),
            _lower(options.group_headers),
            _lower(options.extra_prefixes),
            _lower(options.uid_headers),
        )
        if not proxies:
            proxies = published.get("requestheader-client-ca-file", "")
            headers = ProxyHeaders(
                _list(published, "requestheader-allowed-names"),
                _lower(_list(published, "requestheader-username-headers")),
                _lower(_list(published, "requestheader-group-headers")),
                _lower(_list(published, "requestheader-extra-headers-prefix")),
                _lower(_list(published, "requestheader-uid-headers")),
            )
        self._certificates.invite("\n".join(filter(None, (clients, proxies))))
        authorities = ClientAuthorities(certificates_of(clients), certificates_of(proxies), headers)
        self._authenticator.authorities = authorities


def _authorities_of_files(options: AuthenticationOptions) -> tuple[str, str]:
    """Return the authorities of clients and of proxies (PEM), each empty if no file is given. Raises ValueError."""
    return (
        _authorities("--client-ca-file", options.client_ca_file),
        _authorities("--requestheader-client-ca-file", options.request_header_ca_file),
    )


def _authorities(option: str, file: Path | None) -> str:
    """Return the text of a file, which has a certificate. Raises ValueError, which names the option.

    A file that has become empty is an error: as none at all, it would hand its place to the API server's authorities.
    """
    if file is None:
        return ""
    try:
        # Between the certificates, a file may have text in any encoding; Go ignores it, too.
        text = file.read_bytes().decode("ascii", errors="ignore")
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"{option}: {file} has no PEM certificate") from error
    except OSError as error:
        raise ValueError(f"{option}: {file}: {error.strerror}") from error
    return text


def _lower(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)


def _list(published: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Read a list of the ConfigMap, which is JSON. Raises ValueError."""
    found = json.loads(published.get(key) or "[]")
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise ValueError(f"{key} is no list of names")
    return tuple(found)


async def _client(clients: AsyncExitStack, kubeconfig: Path | None, option: str, machine: Machine) -> KubeClient | None:
    """Return a client for reviews; None without a kubeconfig outside of a pod, as in kube-scheduler."""
    if kubeconfig is None and not is_in_cluster():
        log.warning(
            "the API server is not asked about callers, as there is no kubeconfig for it", extra={"option": option}
        )
        return None
    try:
        credentials = load_credentials(kubeconfig, wall_clock=machine.wall_clock)
    except CredentialsError as error:
        raise StartError(f"{option}: {error}") from error
    limit = TokenBucket(_REVIEWS_PER_SECOND, _REVIEWS_AT_ONCE, clock=machine.clock)
    return await clients.enter_async_context(KubeClient(credentials, limit=limit, clock=machine.clock))


async def _review_token(client: KubeClient, reviews: _Reviews, token: str) -> UserInfo | None:
    with _as_unauthenticated():
        async with reviews.one_more():
            status = await review_token(client, token)
    if status.authenticated:
        user = status.user
        return UserInfo(user.username, user.uid, user.groups, tuple(user.extra.items()))
    if status.error:  # the review may have failed, so the answer must not be kept
        raise UnauthenticatedError(f"the API server says of the token: {status.error}")
    return None


async def _review_access(client: KubeClient, reviews: _Reviews, user: UserInfo, verb: str, path: str) -> Access:
    subject = {"user": user.name, "uid": user.uid, "groups": user.groups, "extra": dict(user.extra)}
    try:
        async with reviews.one_more():
            status = await review_path(client, subject, verb, path)
    except (KubeError, CredentialsError) as error:
        raise ReviewError(str(error)) from error
    return Access(status.allowed and not status.denied, status.reason)


def _certificates(options: SecureServingOptions, refused: Refusals, machine: Machine) -> ServingCertificates:
    certificate, key = options.cert_file, options.key_file
    if (certificate is None) != (key is None):
        raise StartError("--tls-cert-file, --tls-private-key-file: give both, or neither")
    try:
        if certificate is None or key is None:
            certificate, key = _self_signed(options.cert_dir, machine.wall_clock)
        files = TLSFiles(
            certificate,
            key,
            minimum_version=_TLS_VERSIONS[options.min_version],
            ciphers=openssl_ciphers(options.cipher_suites),
        )
        return ServingCertificates(files, refusals=refused, wall_clock=machine.wall_clock)
    except (TLSError, ValueError) as error:
        raise StartError(str(error)) from error
    except OSError as error:
        raise StartError(f"--cert-dir: {error.filename}: {error.strerror}") from error


def _self_signed(folder: Path | None, wall_clock: WallClock) -> tuple[Path, Path]:
    """Return the files of a self-signed certificate: those of the folder, which are made where they do not exist."""
    if folder is not None:
        certificate, key = folder / f"{_PAIR_NAME}.crt", folder / f"{_PAIR_NAME}.key"
        if certificate.exists() and key.exists():
            return certificate, key
    pair = self_signed("localhost", "127.0.0.1", random_bytes=os.urandom, now_seconds=wall_clock())
    if folder is None:
        return _in_memory(pair.certificate), _in_memory(pair.key)
    folder.mkdir(parents=True, exist_ok=True)
    certificate.write_bytes(pair.certificate)
    with os.fdopen(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as written:
        written.write(pair.key)
    return certificate, key


def _in_memory(content: bytes) -> Path:
    """Return a file with this content, which exists as long as the process; no folder need be writable for it."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create(_PAIR_NAME)
        os.write(descriptor, content)
        return Path(f"/proc/self/fd/{descriptor}")
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(content)
    return Path(file.name)


def _listen(options: SecureServingOptions) -> socket.socket:
    open_socket = partial(socket.create_server, reuse_port=options.shares_port)
    try:
        return listen(open_socket, options.bind_address, options.port)
    except OSError as error:
        where = f"{options.bind_address}:{options.port}"
        reason = reason_without_address(error)
        raise StartError(f"--bind-address, --secure-port: cannot listen on {where}: {reason}") from error

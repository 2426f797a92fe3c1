"""Serves health, metrics and configuration over HTTPS, to callers that the API server knows and allows."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from extender_service.command.listening_socket import listen
from extender_service.command.schedule.schedule_options import (
    AuthenticationOptions,
    AuthorizationOptions,
    ScheduleOptions,
    SecureServingOptions,
)
from extender_service.command.schedule.self_signed_files import self_signed_files
from extender_service.command.serving_certificate import (
    MINIMUM_VERSIONS,
    certificate_and_key,
    serving_certificates,
)
from extender_service.command.start_error import StartError
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.connection.rate_limit import TokenBucket
from extender_service.kube.connection.sent_requests import SentRequests
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.credentials.lookup import is_in_cluster, load_credentials
from extender_service.seams import Machine
from extender_service.serving.browsers import BrowserGuard
from extender_service.serving.callers.authentication import Authenticator
from extender_service.serving.callers.authorization import Authorizer
from extender_service.serving.callers.guarded_app import require_authorization
from extender_service.serving.callers.known_authorities import AuthorityFiles, KnownAuthorities, proxy_headers
from extender_service.serving.callers.reviews import Reviews
from extender_service.serving.cipher_suites import openssl_ciphers
from extender_service.serving.connection_limits import ConnectionLimits, LimitedConnections
from extender_service.serving.limited_server import server_config
from extender_service.serving.refusals import Refusals
from extender_service.serving.secure_http import SecureServer
from extender_service.serving.server_tls import ServingCertificates, TLSFiles

log = logging.getLogger(__name__)

# Few programs connect: the kubelet, Prometheus, and operators.
_LIMITS = ConnectionLimits(connections=200)
# While the API server hangs, callers wait for reviews for long: probes, which need none, must find room beside them.
_MOST_REVIEWS = _LIMITS.connections // 2
# As kube-scheduler limits each of its clients for reviews (apiserver's pkg/server/options).
_REVIEWS_PER_SECOND = 200.0
_REVIEWS_AT_ONCE = 400


class SecureListener:
    """The socket and certificates for HTTPS, and who may call. Its parts are made before anything else starts.

    The end of the context closes the socket.
    `refusals` counts refused connections by reason.
    """

    def __init__(self, options: ScheduleOptions, machine: Machine, sent: SentRequests | None = None) -> None:
        """Open the socket and read the certificates; `sent` counts the reviews. Raises StartError."""
        self._options = options
        self._machine = machine
        self._sent = sent
        self._authorities = _authority_files(options.authentication)
        self._reviews = Reviews(_MOST_REVIEWS)
        self._refused = Refusals(machine.clock)
        self._certificates = _certificates(options.serving, self._refused, machine)
        serving = options.serving
        self._socket = listen(
            machine.listen,
            serving.bind_address,
            serving.port,
            "--secure-port",
            port_0="for none",
            shares_port=serving.shares_port,
        )

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
            authenticator, authorities = await self._authenticator(clients)
            authorizer = await self._authorizer(clients)
            app = require_authorization(Starlette(routes=routes), authenticator, authorizer, self._refused)
            config = server_config(app, self._certificates.context)
            connections = LimitedConnections(_LIMITS, self._refused, self._machine.clock)
            server = SecureServer(config, connections, BrowserGuard(None))
            address = self._socket.getsockname()
            log.info("serving", extra={"address": address[0], "port": address[1]})
            async with asyncio.TaskGroup() as tasks:
                work = (self._certificates.follow(), connections.watch(), authorities.follow())
                background = [tasks.create_task(each) for each in work]
                tasks.create_task(server.serve(sockets=[self._socket.dup()]))
                try:
                    yield
                finally:
                    server.should_exit = True
                    for task in background:
                        task.cancel()

    async def _authenticator(self, clients: AsyncExitStack) -> tuple[Authenticator, KnownAuthorities]:
        """Return the authenticator, and what keeps its authorities as the API server says."""
        options = self._options.authentication
        client = await self._client(clients, options.kubeconfig, "--authentication-kubeconfig")
        authenticator = Authenticator(
            None if client is None else partial(self._reviews.user_of, client),
            cache_seconds=options.cache_seconds,
            clock=self._machine.clock,
            waiting=self._reviews.waiting_for_token,
        )
        clients.callback(authenticator.stop)
        lookup = None if options.skips_lookup else client
        known = KnownAuthorities(self._authorities, lookup, authenticator, self._certificates)
        problem = await known.read()
        if problem is not None:
            if not options.tolerates_lookup_failure:
                raise StartError(f"--authentication-tolerate-lookup-failure: {problem}")
            log.warning("cannot read which authorities vouch for callers", extra={"error": problem})
        return authenticator, known

    async def _authorizer(self, clients: AsyncExitStack) -> Authorizer:
        options: AuthorizationOptions = self._options.authorization
        client = await self._client(clients, options.kubeconfig, "--authorization-kubeconfig")
        return Authorizer(
            None if client is None else partial(self._reviews.access_of, client),
            open_paths=options.always_allowed_paths,
            allowed_seconds=options.allowed_cache_seconds,
            denied_seconds=options.denied_cache_seconds,
            clock=self._machine.clock,
        )

    async def _client(self, clients: AsyncExitStack, kubeconfig: Path | None, option: str) -> KubeClient | None:
        """Return a client for reviews; None without a kubeconfig outside of a pod, as in kube-scheduler."""
        if kubeconfig is None and not is_in_cluster():
            log.warning(
                "the API server is not asked about callers, as there is no kubeconfig for it", extra={"option": option}
            )
            return None
        clock = self._machine.clock
        try:
            credentials = load_credentials(kubeconfig, wall_clock=self._machine.wall_clock)
        except CredentialsError as error:
            raise StartError(f"{option}: {error}") from error
        limit = TokenBucket(_REVIEWS_PER_SECOND, _REVIEWS_AT_ONCE, clock=clock)
        return await clients.enter_async_context(KubeClient(credentials, limit=limit, sent=self._sent, clock=clock))


def _authority_files(options: AuthenticationOptions) -> AuthorityFiles:
    """Return the files of authorities, which can be read. Raises StartError."""
    headers = proxy_headers(
        names=options.request_header_names,
        username=options.username_headers,
        group=options.group_headers,
        extra_prefixes=options.extra_prefixes,
        uid=options.uid_headers,
    )
    files = AuthorityFiles(options.client_ca_file, options.request_header_ca_file, headers)
    try:
        files.read()
    except ValueError as error:
        raise StartError(str(error)) from error
    return files


def _certificates(options: SecureServingOptions, refused: Refusals, machine: Machine) -> ServingCertificates:
    given = certificate_and_key(options.cert_file, options.key_file)
    certificate, key = given or self_signed_files(options.cert_dir, machine.wall_clock)
    try:
        ciphers = openssl_ciphers(options.cipher_suites)
    except ValueError as error:
        raise StartError(str(error)) from error
    files = TLSFiles(certificate, key, minimum_version=MINIMUM_VERSIONS[options.min_version], ciphers=ciphers)
    return serving_certificates(files, refused, machine)

"""Which authorities vouch for callers: those of files, and where there are none, those that the API server publishes.

Both may change while the program runs.
"""

import asyncio
import json
import logging
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from extender_service.kube.api_errors import KubeError
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.reviews.delegated_reviews import client_authorities
from extender_service.serving.callers.authentication import Authenticator, ClientAuthorities, ProxyHeaders
from extender_service.serving.callers.peer_certificates import certificates_of
from extender_service.serving.callers.reviews import ANSWER_SECONDS
from extender_service.serving.server_tls import ServingCertificates, TLSError

log = logging.getLogger(__name__)

# How often they are read.
FOLLOW_SECONDS = 10.0


@dataclass(frozen=True)
class AuthorityFiles:
    """Files of authorities (PEM) of clients, and of proxies that name the user in `headers`. None: not given."""

    clients: Path | None
    proxies: Path | None
    headers: ProxyHeaders

    def read(self) -> tuple[str, str]:
        """Return the text of both, each empty if it is not given. Raises ValueError, which names the option."""
        clients = _authorities("--client-ca-file", self.clients)
        return clients, _authorities("--requestheader-client-ca-file", self.proxies)


class KnownAuthorities:
    """Keeps the authorities of an authenticator, and those whose certificates clients are asked for.

    Without a `client`, only the files count.
    """

    def __init__(
        self,
        files: AuthorityFiles,
        client: KubeClient | None,
        authenticator: Authenticator,
        certificates: ServingCertificates,
    ) -> None:
        self._files = files
        self._client = client
        self._authenticator = authenticator
        self._certificates = certificates
        self._published: Mapping[str, str] = {}

    async def follow(self) -> None:
        """Read them again and again; log each new problem."""
        logged: str | None = None
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            problem = await self.read()
            if problem is not None and problem != logged:
                log.warning("cannot read which authorities vouch for callers", extra={"error": problem})
            logged = problem

    async def read(self) -> str | None:
        """Read them once; return why that failed, in which case those known before still count."""
        try:
            if self._client is not None:
                async with asyncio.timeout(ANSWER_SECONDS):
                    self._published = await client_authorities(self._client)
            self._apply()
        except TimeoutError:
            return f"the API server took longer than {ANSWER_SECONDS:g} s to answer"
        except (KubeError, CredentialsError, TLSError, OSError, ValueError) as error:
            return str(error)
        return None

    def _apply(self) -> None:
        published = self._published
        clients, proxies = self._files.read()
        headers = self._files.headers
        if not clients:
            clients = published.get("client-ca-file", "")
        if not proxies:
            proxies = published.get("requestheader-client-ca-file", "")
            headers = proxy_headers(
                names=_list(published, "requestheader-allowed-names"),
                username=_list(published, "requestheader-username-headers"),
                group=_list(published, "requestheader-group-headers"),
                extra_prefixes=_list(published, "requestheader-extra-headers-prefix"),
                uid=_list(published, "requestheader-uid-headers"),
            )
        self._certificates.invite("\n".join(filter(None, (clients, proxies))))
        authorities = ClientAuthorities(certificates_of(clients), certificates_of(proxies), headers)
        self._authenticator.authorities = authorities


def proxy_headers(
    *,
    names: Iterable[str],
    username: Iterable[str],
    group: Iterable[str],
    extra_prefixes: Iterable[str],
    uid: Iterable[str],
) -> ProxyHeaders:
    """Return how proxies with these common names name the user; headers may be in any case."""
    return ProxyHeaders(tuple(names), _lower(username), _lower(group), _lower(extra_prefixes), _lower(uid))


def _lower(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)


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


def _list(published: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Read a list of the ConfigMap, which is JSON. Raises ValueError."""
    found = json.loads(published.get(key) or "[]")
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise ValueError(f"{key} is no list of names")
    return tuple(found)

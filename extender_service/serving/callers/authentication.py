"""Authenticates callers as kube-scheduler does (apiserver's delegating authenticator).

In this order: a proxy that names the user in headers, a client certificate, a bearer token that the API server reviews.
A caller who shows none of these is system:anonymous.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from urllib.parse import unquote

from extender_service.caches import LruCache
from extender_service.seams import Clock
from extender_service.serving.callers.peer_certificates import PeerCertificate
from extender_service.serving.callers.shared_calls import SharedCalls
from extender_service.serving.callers.users import ANONYMOUS, AUTHENTICATED_GROUP, UnauthenticatedError, UserInfo

ReviewToken = Callable[[str], Awaitable[UserInfo | None]]
"""Returns the user of a token, None if it is not valid. Raises UnauthenticatedError if that cannot be found out."""

_MALFORMED_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
_MOST_CACHED = 4096
_CACHE_BYTES = 4 << 20


@dataclass(frozen=True)
class ProxyHeaders:
    """How an authenticating proxy names the user; all names are in lower case. No `names` stand for any common name."""

    names: tuple[str, ...] = ()
    username: tuple[str, ...] = ("x-remote-user",)
    group: tuple[str, ...] = ("x-remote-group",)
    extra_prefixes: tuple[str, ...] = ("x-remote-extra-",)
    uid: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClientAuthorities:
    """The authorities (DER) that vouch for users' certificates, and those that vouch for authenticating proxies."""

    clients: frozenset[bytes] = frozenset()
    proxies: frozenset[bytes] = frozenset()
    proxy_headers: ProxyHeaders = ProxyHeaders()


class Authenticator:
    """Finds out who calls. `authorities` may be replaced at any time; without `review_token`, tokens do not count.

    Callers that show a token while it is reviewed share that review; they wait for it within `waiting()`, which may
    raise UnauthenticatedError.
    """

    def __init__(
        self,
        review_token: ReviewToken | None,
        *,
        cache_seconds: float,
        clock: Clock,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.authorities = ClientAuthorities()
        self._review_token = review_token
        self._cache_seconds = cache_seconds
        self._clock = clock
        # By the token's hash: a dump of the memory shows none.
        self._known: LruCache[bytes, tuple[float, UserInfo | None] | None] = LruCache(
            "reviews of tokens", most_entries=_MOST_CACHED, most_bytes=_CACHE_BYTES
        )
        self._reviews: SharedCalls[bytes, UserInfo | None] = SharedCalls(waiting)

    def stop(self) -> None:
        """Cancel the reviews under way."""
        self._reviews.cancel()

    async def authenticate(self, headers: Sequence[tuple[str, str]], certificate: PeerCertificate | None) -> UserInfo:
        """Return who calls; names of headers are in lower case. Raises UnauthenticatedError."""
        user = None
        if certificate is not None:
            user = self._named_by_proxy(headers, certificate) or self._of_certificate(certificate)
        token = _bearer_token(headers)
        if user is None and token and self._review_token is not None:
            user = await self._of_token(token)
            if user is None:
                raise UnauthenticatedError("invalid bearer token")
        if user is None:
            if certificate is not None:
                raise UnauthenticatedError("the client's certificate is of no authority that counts")
            return ANONYMOUS
        return _as_authenticated(user)

    def _named_by_proxy(self, headers: Sequence[tuple[str, str]], certificate: PeerCertificate) -> UserInfo | None:
        known = self.authorities.proxy_headers
        if not certificate.is_of(self.authorities.proxies) or (
            known.names and certificate.common_name not in known.names
        ):
            return None
        values = _by_name(headers)
        name = _first(values, known.username)
        if not name:
            return None
        groups = tuple(value for header in known.group for value in values.get(header, ()) if value)
        return UserInfo(name, _first(values, known.uid), groups, _extra(values, known.extra_prefixes))

    def _of_certificate(self, certificate: PeerCertificate) -> UserInfo | None:
        if not certificate.is_of(self.authorities.clients) or not certificate.common_name:
            return None
        return UserInfo(certificate.common_name, groups=certificate.organizations)

    async def _of_token(self, token: str) -> UserInfo | None:
        key = hashlib.sha256(token.encode()).digest()
        known = self._known[key]
        if known is not None and self._clock() < known[0]:
            return known[1]
        return await self._reviews.get(key, lambda: self._review(key, token))

    async def _review(self, key: bytes, token: str) -> UserInfo | None:
        assert self._review_token is not None
        user = await self._review_token(token)
        self._known.keep(key, (self._clock() + self._cache_seconds, user), 500 + len(repr(user)))
        return user


def _bearer_token(headers: Sequence[tuple[str, str]]) -> str:
    authorization = next((value for name, value in headers if name == "authorization"), "")
    scheme, _, token = authorization.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _by_name(headers: Sequence[tuple[str, str]]) -> Mapping[str, list[str]]:
    values: dict[str, list[str]] = {}
    for name, value in headers:
        values.setdefault(name, []).append(value)
    return values


def _first(values: Mapping[str, Sequence[str]], headers: Sequence[str]) -> str:
    """Return the value of the first header that has one."""
    return next((values[header][0] for header in headers if values.get(header, [""])[0]), "")


def _extra(values: Mapping[str, Sequence[str]], prefixes: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the keys that follow a prefix, with their values. Headers may write one key in several ways."""
    extra: dict[str, list[str]] = {}
    for prefix in prefixes:
        for header, found in values.items():
            if header.startswith(prefix):
                extra.setdefault(_unescaped(header.removeprefix(prefix)), []).extend(found)
    return tuple((key, tuple(found)) for key, found in extra.items())


def _unescaped(key: str) -> str:
    """Decode the escapes of a key, if all are well formed (unescapeExtraKey)."""
    return key if _MALFORMED_ESCAPE.search(key) else unquote(key)


def _as_authenticated(user: UserInfo) -> UserInfo:
    if user.name == ANONYMOUS.name or AUTHENTICATED_GROUP in user.groups:
        return user
    return UserInfo(user.name, user.uid, (*user.groups, AUTHENTICATED_GROUP), user.extra)

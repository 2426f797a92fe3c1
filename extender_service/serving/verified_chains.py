"""The chain from a client's certificate to an authority, also where a session of TLS 1.2 is resumed.

A session has the client's certificate, but not its chain, and OpenSSL verifies nothing when it is resumed, up to two
hours later. Python's ssl module cannot turn that off for TLS 1.2: without tickets (OP_NO_TICKET), OpenSSL resumes from
its own cache.
"""

import ssl
from typing import Any, NamedTuple

from extender_service.caches import LruCache

_DER = 2  # _ssl.ENCODING_DER
_MOST_CACHED = 8192
_CACHE_BYTES = 16 << 20


class VerifiedChain(NamedTuple):
    """The client's certificate and those up to an authority, as DER.

    `expires_seconds` is when the first of them expires, in seconds since 1970.
    """

    certificates: frozenset[bytes]
    expires_seconds: float


class VerifiedChains:
    """The chains of the clients of one SSLContext.

    Its sessions are resumed nowhere else, and its authorities stay: a chain is right until a certificate in it expires.
    """

    def __init__(self) -> None:
        self._known: LruCache[bytes, VerifiedChain | None] = LruCache(
            "chains of clients' certificates", most_entries=_MOST_CACHED, most_bytes=_CACHE_BYTES
        )

    def of(self, connection: ssl.SSLObject) -> VerifiedChain | None:
        """Return the chain of a client that has shown a certificate.

        None if it resumes a session, and the chain is no longer known.
        """
        shown = connection.getpeercert(binary_form=True)
        assert shown is not None
        if connection.session_reused:
            return self._known[shown]
        chain = _chain(connection)
        if connection.version() != "TLSv1.3":  # of which no session is resumed
            self._known.keep(shown, chain, len(shown) + sum(map(len, chain.certificates)))
        return chain


def _chain(connection: Any) -> VerifiedChain:
    # Python's own get_verified_chain exists from 3.13 on, and does not tell when certificates expire.
    found = connection._sslobj.get_verified_chain()  # noqa: SLF001
    return VerifiedChain(
        frozenset(each.public_bytes(_DER) for each in found),
        min(ssl.cert_time_to_seconds(each.get_info()["notAfter"]) for each in found),
    )

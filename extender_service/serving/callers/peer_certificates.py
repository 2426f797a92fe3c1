"""The certificate that a client showed in the TLS handshake, with the authority that vouches for it."""

import re
import ssl
from collections.abc import Mapping
from typing import Any, NamedTuple

from extender_service.serving.server_tls import TLSConnection

_PEM = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


class PeerCertificate(NamedTuple):
    """A verified certificate: its subject, and the chain to a trusted authority as DER."""

    common_name: str
    organizations: tuple[str, ...]
    chain: frozenset[bytes]

    def is_of(self, authorities: frozenset[bytes]) -> bool:
        """Return whether one of these authorities vouches for the certificate."""
        return not self.chain.isdisjoint(authorities)


def peer_certificate(connection: TLSConnection | None) -> PeerCertificate | None:
    """Return the client's certificate; None if it showed none, or the connection has no TLS."""
    shown: Mapping[str, Any] = {} if connection is None else connection.getpeercert() or {}
    if connection is None or not shown:
        return None
    fields: list[tuple[str, str]] = [pair for part in shown["subject"] for pair in part]
    return PeerCertificate(
        next((value for name, value in reversed(fields) if name == "commonName"), ""),
        tuple(value for name, value in fields if name == "organizationName"),
        connection.verified_chain,
    )


def certificates_of(pem: str) -> frozenset[bytes]:
    """Return the certificates of a PEM bundle as DER. Raises ValueError for what is no base64."""
    return frozenset(ssl.PEM_cert_to_DER_cert(found) for found in _PEM.findall(pem))

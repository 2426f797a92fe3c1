import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
import trustme

from extender_service.caches import caches
from extender_service.serving.verified_chains import VerifiedChain, VerifiedChains
from tests.support.servers.certificates import client_context

CA = trustme.CA()
EXPIRES = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
CLIENT = CA.issue_cert("a", not_after=EXPIRES)


class Server:
    """A server in memory."""

    def __init__(self) -> None:
        self.chains = VerifiedChains()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        CA.issue_cert("localhost").configure_cert(self._context)
        CA.configure_trust(self._context)
        self._context.verify_mode = ssl.CERT_OPTIONAL

    def connect(self, client: ssl.SSLContext, session: ssl.SSLSession | None = None) -> tuple[ssl.SSLObject, ...]:
        """Connect a client; returns both sides, the server's first."""
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        ours = self._context.wrap_bio(there, back, server_side=True)
        theirs = client.wrap_bio(back, there, server_hostname="localhost", session=session)
        for _ in range(4):
            for side in (theirs, ours):
                with suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        return ours, theirs


def client(version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2) -> ssl.SSLContext:
    context = client_context(CA, CLIENT)
    context.minimum_version = context.maximum_version = version
    return context


def kept() -> int:
    return next(cache.entries for cache in caches() if cache.name == "chains of clients' certificates")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_chain_reaches_an_authority_and_expires_with_the_first_of_its_certificates(version: ssl.TLSVersion) -> None:
    server = Server()
    chain = server.chains.of(server.connect(client(version))[0])
    pems = (CLIENT.cert_chain_pems[0], CA.cert_pem)
    certificates = frozenset(ssl.PEM_cert_to_DER_cert(each.bytes().decode()) for each in pems)
    assert chain == VerifiedChain(certificates, EXPIRES.timestamp())


def test_a_resumed_session_has_the_chain_of_its_beginning() -> None:
    server, asking = Server(), client()
    ours, theirs = server.connect(asking)
    chain = server.chains.of(ours)
    again, _ = server.connect(asking, theirs.session)
    assert again.session_reused
    assert server.chains.of(again) == chain
    assert VerifiedChains().of(again) is None  # as for a chain that was dropped


def test_only_chains_that_may_be_asked_for_again_are_kept() -> None:
    server = Server()
    before = kept()
    server.chains.of(server.connect(client(ssl.TLSVersion.TLSv1_3))[0])
    assert kept() == before
    for _ in range(2):
        server.chains.of(server.connect(client())[0])
    assert kept() == before + 1

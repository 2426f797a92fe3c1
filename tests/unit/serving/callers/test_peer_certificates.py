import ssl
from contextlib import suppress
from pathlib import Path

import pytest
import trustme

from extender_service.serving.callers.peer_certificates import PeerCertificate, certificates_of, peer_certificate
from extender_service.serving.refusals import Refusals
from extender_service.serving.server_tls import ServingCertificates, TLSConnection, TLSFiles
from tests.support.servers.certificates import client_context, overwrite, pem_files

CA, OTHER = trustme.CA(), trustme.CA()


class Server:
    """A server in memory, which trusts both authorities."""

    def __init__(self, folder: Path) -> None:
        overwrite(folder, pem_files(CA.issue_cert("localhost")))
        self._certificates = ServingCertificates(TLSFiles(folder / "tls.crt", folder / "tls.key"), Refusals())
        self._certificates.invite("".join(each.cert_pem.bytes().decode() for each in (CA, OTHER)))

    def shown(self, client: trustme.LeafCert | None) -> PeerCertificate | None:
        """What the server sees of a client."""
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        ours = self._certificates.context.wrap_bio(there, back, server_side=True)
        theirs = client_context(CA, client).wrap_bio(back, there, server_hostname="localhost")
        for _ in range(4):
            for side in (theirs, ours):
                with suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        assert isinstance(ours, TLSConnection)
        return peer_certificate(ours)


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def of(authority: trustme.CA) -> frozenset[bytes]:
    return certificates_of(authority.cert_pem.bytes().decode())


def test_a_certificate_names_its_user_and_the_authority_that_vouches_for_it(server: Server) -> None:
    found = server.shown(CA.issue_cert("x", common_name="ann", organization_name="ops"))
    assert found is not None
    assert (found.common_name, found.organizations) == ("ann", ("ops",))
    assert found.is_of(of(CA))
    assert not found.is_of(of(OTHER))
    assert not found.is_of(frozenset())


def test_an_authority_below_another_counts_by_itself(server: Server) -> None:
    below = CA.create_child_ca()
    found = server.shown(below.issue_cert("x", common_name="ann"))
    assert found is not None
    assert found.is_of(of(CA))
    assert found.is_of(of(below))


def test_no_certificate_is_none(server: Server) -> None:
    assert server.shown(None) is None
    assert peer_certificate(None) is None


def test_a_bundle_may_have_several_certificates_and_text_between_them() -> None:
    bundle = "\n# comment\n".join(each.cert_pem.bytes().decode() for each in (CA, OTHER))
    assert certificates_of(bundle) == of(CA) | of(OTHER)
    assert certificates_of("") == frozenset()

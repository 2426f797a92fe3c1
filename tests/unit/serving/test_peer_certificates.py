import ssl
from contextlib import suppress

import trustme

from extender_service.serving.peer_certificates import PeerCertificate, certificates_of, peer_certificate

CA, OTHER = trustme.CA(), trustme.CA()


def shown(client: trustme.LeafCert | None) -> PeerCertificate | None:
    """What a server that trusts both authorities sees of a client."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    CA.issue_cert("localhost").configure_cert(server)
    for trusted in (CA, OTHER):
        trusted.configure_trust(server)
    server.verify_mode = ssl.CERT_OPTIONAL
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    CA.configure_trust(asking)
    if client is not None:
        client.configure_cert(asking)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(there, back, server_side=True)
    theirs = asking.wrap_bio(back, there, server_hostname="localhost")
    for _ in range(4):
        for side in (theirs, ours):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return peer_certificate(ours)


def of(authority: trustme.CA) -> frozenset[bytes]:
    return certificates_of(authority.cert_pem.bytes().decode())


def test_a_certificate_names_its_user_and_the_authority_that_vouches_for_it() -> None:
    found = shown(CA.issue_cert("x", common_name="ann", organization_name="ops"))
    assert found is not None
    assert (found.common_name, found.organizations) == ("ann", ("ops",))
    assert found.is_of(of(CA))
    assert not found.is_of(of(OTHER))
    assert not found.is_of(frozenset())


def test_an_authority_below_another_counts_by_itself() -> None:
    below = CA.create_child_ca()
    found = shown(below.issue_cert("x", common_name="ann"))
    assert found is not None
    assert found.is_of(of(CA))
    assert found.is_of(of(below))


def test_no_certificate_is_none() -> None:
    assert shown(None) is None
    assert peer_certificate(None) is None


def test_a_bundle_may_have_several_certificates_and_text_between_them() -> None:
    bundle = "\n# comment\n".join(each.cert_pem.bytes().decode() for each in (CA, OTHER))
    assert certificates_of(bundle) == of(CA) | of(OTHER)
    assert certificates_of("") == frozenset()

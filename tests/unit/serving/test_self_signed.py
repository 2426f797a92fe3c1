import os
import ssl
import time
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from extender_service.serving.self_signed import self_signed


def test_openssl_and_others_accept_the_certificate_for_its_names(tmp_path: Path) -> None:
    for _ in range(20):  # numbers with and without leading zeros
        pair = self_signed("localhost", "127.0.0.1", random_bytes=os.urandom, now_seconds=time.time())
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        public = certificate.public_key()
        assert isinstance(public, ec.EllipticCurvePublicKey)
        certificate.verify_directly_issued_by(certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    (tmp_path / "crt").write_bytes(pair.certificate)
    (tmp_path / "key").write_bytes(pair.key)

    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(cadata=pair.certificate.decode())
    for name in ("localhost", "127.0.0.1"):
        shake_hands(server, client, name)


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(back, there, server_hostname=name), server.wrap_bio(there, back, server_side=True)]
    done: set[ssl.SSLObject] = set()
    while len(done) < 2:
        for side in sides:
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                pass


def test_each_certificate_has_a_key_and_a_number_of_its_own() -> None:
    made = [self_signed("localhost", "::1", random_bytes=os.urandom, now_seconds=time.time()) for _ in range(2)]
    assert made[0].key != made[1].key
    numbers = {x509.load_pem_x509_certificate(each.certificate).serial_number for each in made}
    assert len(numbers) == 2

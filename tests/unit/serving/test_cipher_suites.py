import ssl

import pytest

from extender_service.serving.cipher_suites import openssl_ciphers

MODERN = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
]


def test_openssl_knows_the_suites_by_its_own_names() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for name in MODERN:
        context.set_ciphers(openssl_ciphers([name]))
    assert openssl_ciphers(MODERN) == (
        "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-CHACHA20-POLY1305:ECDHE-RSA-AES256-SHA:AES128-GCM-SHA256"
    )


def test_suites_of_tls_13_cannot_be_chosen() -> None:
    assert openssl_ciphers(["TLS_AES_128_GCM_SHA256"]) == ""


@pytest.mark.parametrize("name", ["AES128-SHA", "TLS_RSA_WITH_NULL_SHA", ""])
def test_an_unknown_suite_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=rf"Cipher suite {name} not supported or doesn't exist"):
        openssl_ciphers([name])

"""Names of cipher suites: Go's, which are IANA's, as OpenSSL has them."""

import re
from collections.abc import Sequence

_TLS13 = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
_SUITE = re.compile(r"TLS_(ECDHE_ECDSA|ECDHE_RSA|RSA)_WITH_(\w+)")
_CIPHERS = {
    "AES_128_CBC_SHA": "AES128-SHA",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_CBC_SHA": "AES256-SHA",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "CHACHA20_POLY1305": "CHACHA20-POLY1305",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
    "3DES_EDE_CBC_SHA": "DES-CBC3-SHA",
    "RC4_128_SHA": "RC4-SHA",
}


def openssl_ciphers(names: Sequence[str]) -> str:
    """Return OpenSSL's list of the suites up to TLS 1.2; those of TLS 1.3 cannot be chosen, as in Go.

    Raises ValueError for a name that Go does not know.
    """
    return ":".join(_openssl_name(name) for name in names if name not in _TLS13)


def _openssl_name(name: str) -> str:
    suite = _SUITE.fullmatch(name)
    cipher = _CIPHERS.get(suite[2]) if suite else None
    if suite is None or cipher is None:
        raise ValueError(f"--tls-cipher-suites: Cipher suite {name} not supported or doesn't exist")
    exchange = suite[1].replace("_", "-")
    return cipher if exchange == "RSA" else f"{exchange}-{cipher}"

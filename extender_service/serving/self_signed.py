"""A self-signed certificate for a server that was given none: ECDSA with P-256 and SHA-256, valid for a year.

Written here since the standard library makes no certificates. It protects nothing that its user compares it with; the
key signs this certificate, and then the handshakes, which OpenSSL does. ITU-T X.690 (DER), RFC 5280, SEC 1.
"""

import base64
import hashlib
import ipaddress
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

RandomBytes = Callable[[int], bytes]
"""Returns that many unpredictable bytes, like os.urandom."""

_VALID = timedelta(days=365)

# The curve P-256 (SEC 2, 2.4.2): y² = x³ - 3x + b modulo p, with a generator of order n.
_P = 0xFFFFFFFF00000001000000000000000000000000FFFFFFFFFFFFFFFFFFFFFFFF
_N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_G = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)

_Point = tuple[int, int]

# Tags of DER.
_BIT_STRING, _OCTET_STRING, _OID, _UTF8, _TIME, _SEQUENCE, _SET = 0x03, 0x04, 0x06, 0x0C, 0x18, 0x30, 0x31

_EC_PUBLIC_KEY, _PRIME256V1, _ECDSA_SHA256 = "1.2.840.10045.2.1", "1.2.840.10045.3.1.7", "1.2.840.10045.4.3.2"
_COMMON_NAME, _SERVER_AUTH = "2.5.4.3", "1.3.6.1.5.5.7.3.1"
_KEY_USAGE, _ALT_NAME, _BASIC_CONSTRAINTS, _EXTENDED_USAGE = "2.5.29.15", "2.5.29.17", "2.5.29.19", "2.5.29.37"


class KeyPair(NamedTuple):
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


def self_signed(name: str, address: str, *, random_bytes: RandomBytes, now_seconds: float) -> KeyPair:
    """Return a certificate for a DNS name and an IP address. `now_seconds` is the time since 1970."""
    secret = _scalar(random_bytes)
    public = _multiply(secret, _G)
    point = b"\x04" + public[0].to_bytes(32, "big") + public[1].to_bytes(32, "big")
    now = datetime.fromtimestamp(now_seconds, UTC)
    algorithm = _sequence(_oid(_ECDSA_SHA256))
    subject = _sequence(_der(_SET, _sequence(_oid(_COMMON_NAME), _der(_UTF8, name.encode()))))
    body = _sequence(
        _der(0xA0, _integer(2)),
        _integer(int.from_bytes(random_bytes(15), "big")),
        algorithm,
        subject,
        # An hour of grace for clients whose clocks are late.
        _sequence(_time(now - timedelta(hours=1)), _time(now + _VALID)),
        subject,
        _sequence(_sequence(_oid(_EC_PUBLIC_KEY), _oid(_PRIME256V1)), _bits(point)),
        _der(0xA3, _sequence(*_extensions(name, address))),
    )
    certificate = _sequence(body, algorithm, _bits(_sign(body, secret, random_bytes)))
    key = _sequence(
        _integer(1),
        _der(_OCTET_STRING, secret.to_bytes(32, "big")),
        _der(0xA0, _oid(_PRIME256V1)),
        _der(0xA1, _bits(point)),
    )
    return KeyPair(_pem("CERTIFICATE", certificate), _pem("EC PRIVATE KEY", key))


def _extensions(name: str, address: str) -> list[bytes]:
    names = _der(0x82, name.encode()) + _der(0x87, ipaddress.ip_address(address).packed)
    critical = b"\x01\x01\xff"
    # Digital signature and certificate signature.
    return [
        _sequence(_oid(_BASIC_CONSTRAINTS), critical, _der(_OCTET_STRING, _sequence(b"\x01\x01\xff"))),
        _sequence(_oid(_KEY_USAGE), critical, _der(_OCTET_STRING, b"\x03\x02\x02\x84")),
        _sequence(_oid(_EXTENDED_USAGE), _der(_OCTET_STRING, _sequence(_oid(_SERVER_AUTH)))),
        _sequence(_oid(_ALT_NAME), _der(_OCTET_STRING, _der(_SEQUENCE, names))),
    ]


def _sign(message: bytes, secret: int, random_bytes: RandomBytes) -> bytes:
    digest = int.from_bytes(hashlib.sha256(message).digest(), "big")
    while True:
        nonce = _scalar(random_bytes)
        r = _multiply(nonce, _G)[0] % _N
        s = pow(nonce, -1, _N) * (digest + r * secret) % _N
        if r and s:
            return _sequence(_integer(r), _integer(s))


def _scalar(random_bytes: RandomBytes) -> int:
    # 64 bits more than n has, so that all values are as likely.
    return int.from_bytes(random_bytes(40), "big") % (_N - 1) + 1


def _multiply(factor: int, point: _Point) -> _Point:
    total: _Point | None = None
    while factor:
        if factor & 1:
            total = _add(total, point)
        point = _add(point, point)
        factor >>= 1
    assert total is not None
    return total


def _add(one: _Point | None, other: _Point) -> _Point:
    # Points that cancel each other do not occur below the order of the generator.
    if one is None:
        return other
    (x1, y1), (x2, y2) = one, other
    rise, run = (3 * x1 * x1 - 3, 2 * y1) if one == other else (y2 - y1, x2 - x1)
    slope = rise * pow(run, -1, _P)
    x3 = (slope * slope - x1 - x2) % _P
    return x3, (slope * (x1 - x3) - y1) % _P


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def _sequence(*parts: bytes) -> bytes:
    return _der(_SEQUENCE, b"".join(parts))


def _integer(value: int) -> bytes:
    return _der(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _bits(content: bytes) -> bytes:
    return _der(_BIT_STRING, b"\x00" + content)


def _oid(dotted: str) -> bytes:
    first, second, *rest = map(int, dotted.split("."))
    encoded = bytearray()
    for number in (40 * first + second, *rest):
        groups = [number & 0x7F]
        while number := number >> 7:
            groups.append(number & 0x7F | 0x80)
        encoded += bytes(reversed(groups))
    return _der(_OID, bytes(encoded))


def _time(moment: datetime) -> bytes:
    # RFC 5280 wants UTCTime up to 2049.
    if moment.year < 2050:
        return _der(0x17, moment.strftime("%y%m%d%H%M%SZ").encode())
    return _der(_TIME, moment.strftime("%Y%m%d%H%M%SZ").encode())


def _pem(kind: str, content: bytes) -> bytes:
    text = base64.encodebytes(content).replace(b"\n", b"")
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    return b"\n".join([f"-----BEGIN {kind}-----".encode(), *lines, f"-----END {kind}-----".encode(), b""])

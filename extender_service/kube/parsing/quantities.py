"""Exact amounts of resources, as resource.Quantity counts them (k8s.io/apimachinery/pkg/api/resource).

An amount is a Python int in nano units, the finest that Kubernetes stores, so sums are exact. Callers round to milli or
whole units only where kube-scheduler rounds.
"""

import re

from extender_service.caches import cached
from extender_service.kube.types.core import RawQuantity

_MAX_INT64 = 2**63 - 1
_NANOS_PER_UNIT = 10**9
_NANOS_PER_MILLI = 10**6

# Groups: sign, leading zeros, digits, digits after the point, suffix. Kubernetes accepts no digits at all as zero.
_QUANTITY = re.compile(r"([+-]?)(0*)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)")
_DECIMAL_SUFFIXES = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,19})")

# Any digits times ten to this power, or a higher one, overflow int64, and their lowest 64 bits are zero.
_HIGHEST_EXPONENT = 64
# Longer ones are nonsense. (Python refuses to read numbers of more than 4,300 digits.)
_MOST_CHARACTERS = 1000


class QuantityError(ValueError):
    """A text that is not a quantity."""


def _length(raw: RawQuantity) -> int:
    return len(raw if isinstance(raw, str) else repr(raw))


@cached("quantities", most_entries=1 << 14, most_entry_bytes=300, most_size=32, size=_length)
def parse_quantity(raw: RawQuantity) -> int:
    """Parse a quantity from JSON or YAML; returns nano units: 500 million for "500m".

    Like resource.ParseQuantity, rounds finer amounts away from zero, and limits amounts with a binary suffix (Ki to Ei)
    to 2^63-1 units. Like Quantity.UnmarshalJSON, ignores spaces around the text. Results are cached, because the pods
    of a cluster repeat a few texts.

    Raises QuantityError for a text that Kubernetes refuses.
    """
    text = raw.strip(" ") if isinstance(raw, str) else repr(raw)
    if len(text) > _MOST_CHARACTERS:
        raise QuantityError(f"quantity {text[:20]!r}… has more than {_MOST_CHARACTERS} characters")
    match = _QUANTITY.fullmatch(text)
    if not text or match is None:
        raise QuantityError(f"quantity {text!r} must be a number with an optional suffix, such as 500m, 1.5Gi or 2e3")
    sign, zeros, integer, fraction, suffix = match.groups(default="")
    digits = int(integer + fraction or "0")
    if suffix in _BINARY_SUFFIXES:
        exponent = _BINARY_SUFFIXES[suffix]
        nanos = _scale_by_ten(digits << exponent, 9 - len(fraction))
        nanos = min(nanos, _MAX_INT64 * _NANOS_PER_UNIT)
    else:
        exponent = _decimal_exponent(suffix, text)
        nanos = _scale_by_ten(digits, exponent + 9 - len(fraction))
    # Kubernetes reads a suffix without digits as zero, unless it parses with big numbers (inf.Dec).
    big = exponent >= 50 if suffix in _BINARY_SUFFIXES else exponent < -9
    if big and not zeros + integer + fraction:
        raise QuantityError(f"quantity {text!r} has no digits")
    return -nanos if sign == "-" else nanos


def milli_value(nanos: int) -> int:
    """Convert nano to milli units like Quantity.MilliValue, for CPU. Rounds away from zero.

    `whole_value` describes amounts that overflow int64.
    """
    return _rounded(nanos, _NANOS_PER_MILLI, scale=-3)


def whole_value(nanos: int) -> int:
    """Convert nano to whole units like Quantity.Value, for all resources except CPU. Rounds away from zero.

    Beyond int64, Go silently overflows, and the result depends on the spelling of the quantity. This function returns
    Go's result for the decimal spelling that the API server writes (10E, not 10000P).
    """
    return _rounded(nanos, _NANOS_PER_UNIT, scale=0)


class BigAmount(int):
    """An amount in nano units that Go holds as a big number, though few digits would do. So are sums with it."""

    def __add__(self, other: int) -> "BigAmount":
        return BigAmount(int(self) + int(other))

    __radd__ = __add__


def larger(amount: int, than: int) -> int:
    """Return `amount`, of two the larger one, as Quantity.Cmp leaves it: as a big number if the other one is that."""
    return BigAmount(amount) if _is_big(amount) or _is_big(than) else amount


def _is_big(nanos: int) -> bool:
    return isinstance(nanos, BigAmount) or _digits_and_power(nanos)[0] > _MAX_INT64


def _digits_and_power(nanos: int) -> tuple[int, int]:
    """Return an amount as digits and a power of a thousand (as one of ten), as the API server writes it."""
    digits, power = abs(nanos), -9
    while digits and digits % 1000 == 0:
        digits, power = digits // 1000, power + 3
    return digits, power


def _decimal_exponent(suffix: str, text: str) -> int:
    if suffix in _DECIMAL_SUFFIXES:
        return _DECIMAL_SUFFIXES[suffix]
    match = _EXPONENT.fullmatch(suffix)
    if match is None or not -_MAX_INT64 - 1 <= int(match[1]) <= _MAX_INT64:
        raise QuantityError(f"quantity {text!r} has an unknown suffix {suffix!r}")
    return _wrapped(int(match[1]), bits=32)


def _scale_by_ten(digits: int, power: int) -> int:
    """Return digits times ten to a power, rounded up. Limits powers beyond any amount, to bound time and memory."""
    factor: int = 10 ** min(abs(power), _HIGHEST_EXPONENT + 9 if power > 0 else _MOST_CHARACTERS)
    return digits * factor if power > 0 else -(-digits // factor)


def _rounded(nanos: int, nanos_per_unit: int, *, scale: int) -> int:
    amount = -(-nanos // nanos_per_unit) if nanos > 0 else nanos // nanos_per_unit
    if -_MAX_INT64 - 1 <= amount <= _MAX_INT64:
        return amount
    # Go stores up to 18 digits and a power of a thousand, and multiplies them. For high powers it checks for overflow
    # and returns zero then. For low powers, or more digits, it uses plain 64-bit arithmetic, which wraps.
    digits, power = _digits_and_power(nanos)
    is_checked = digits < 10**18 and power - scale > 9 and not isinstance(nanos, BigAmount)
    return 0 if is_checked else _wrapped(amount, bits=64)


def _wrapped(number: int, *, bits: int) -> int:
    """Convert to a signed integer of so many bits, as Go does: keep the lowest bits."""
    half = 1 << (bits - 1)
    return (number + half) % (2 * half) - half

"""Exact amounts of resources, as resource.Quantity counts them (k8s.io/apimachinery/pkg/api/resource).

An amount is a Python int in nano units, the finest that Kubernetes keeps, so that sums are exact; it is rounded to
milli or whole units only where kube-scheduler rounds.
"""

import re

from extender_service.caches import cached
from extender_service.kube.types.core import RawQuantity

_MAX_INT64 = 2**63 - 1
_NANOS_PER_UNIT = 10**9
_NANOS_PER_MILLI = 10**6

# Sign, leading zeros, digits, digits after the point, suffix. No digits at all is allowed, and means zero.
_QUANTITY = re.compile(r"([+-]?)(0*)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)")
_DECIMAL_SUFFIXES = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,19})")

# Any digits times ten to this power are beyond int64 and zero in its 64 bits, and so are all higher powers.
_HIGHEST_EXPONENT = 64
# Longer ones are nonsense. (Python refuses to read numbers of more than 4,300 digits.)
_MOST_CHARACTERS = 1000


class QuantityError(ValueError):
    """A text that is not a quantity."""


def _length(raw: RawQuantity) -> int:
    return len(raw if isinstance(raw, str) else repr(raw))


@cached("quantities", most_entries=1 << 14, most_entry_bytes=300, most_size=32, size=_length)
def parse_quantity(raw: RawQuantity) -> int:
    """Read an amount as JSON or YAML holds it; the answer is in nano units.

    What is finer is rounded away from zero, and an amount with a binary suffix (Ki to Ei) is cut at 2^63-1 units, both
    as resource.ParseQuantity does. As Quantity.UnmarshalJSON does, spaces around the text are ignored. Cached, because
    a cluster's pods repeat few texts.

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
    # Kubernetes takes a suffix without a number for zero, except where it calculates with big numbers.
    big = exponent >= 50 if suffix in _BINARY_SUFFIXES else exponent < -9
    if big and not zeros + integer + fraction:
        raise QuantityError(f"quantity {text!r} has no digits")
    return -nanos if sign == "-" else nanos


def milli_value(nanos: int) -> int:
    """Thousandths of a unit, as Quantity.MilliValue counts them; CPU is counted so.

    A fraction is rounded away from zero. Beyond int64 see `whole_value`.
    """
    return _rounded(nanos, _NANOS_PER_MILLI, scale=-3)


def whole_value(nanos: int) -> int:
    """Whole units, as Quantity.Value counts them; all resources but CPU are counted so.

    A fraction is rounded away from zero. Go overflows without notice beyond int64, to an amount that depends on how the
    quantity is written; the answer here is Go's for the decimal text that the API server writes (10E, not 10000P).
    """
    return _rounded(nanos, _NANOS_PER_UNIT, scale=0)


def _decimal_exponent(suffix: str, text: str) -> int:
    if suffix in _DECIMAL_SUFFIXES:
        return _DECIMAL_SUFFIXES[suffix]
    match = _EXPONENT.fullmatch(suffix)
    if match is None or not -_MAX_INT64 - 1 <= int(match[1]) <= _MAX_INT64:
        raise QuantityError(f"quantity {text!r} has an unknown suffix {suffix!r}")
    return _wrapped(int(match[1]), bits=32)


def _scale_by_ten(digits: int, power: int) -> int:
    """Digits times ten to a power, rounded up; powers that no amount can have are cut, to bound time and memory."""
    factor: int = 10 ** min(abs(power), _HIGHEST_EXPONENT + 9 if power > 0 else _MOST_CHARACTERS)
    return digits * factor if power > 0 else -(-digits // factor)


def _rounded(nanos: int, nanos_per_unit: int, *, scale: int) -> int:
    amount = -(-nanos // nanos_per_unit) if nanos > 0 else nanos // nanos_per_unit
    if -_MAX_INT64 - 1 <= amount <= _MAX_INT64:
        return amount
    # Go keeps up to 18 digits and a power of a thousand, and multiplies: by high powers carefully, answering zero where
    # that overflows; by low ones, or where the digits are more, in plain 64-bit arithmetic.
    digits, power = abs(nanos), -9
    while digits % 1000 == 0:
        digits, power = digits // 1000, power + 3
    return 0 if digits < 10**18 and power - scale > 9 else _wrapped(amount, bits=64)


def _wrapped(number: int, *, bits: int) -> int:
    """The number that is left in a signed integer of so many bits, as Go converts."""
    half = 1 << (bits - 1)
    return (number + half) % (2 * half) - half

"""Durations as metav1.Duration has them: whole nanoseconds, written as Go's time.Duration ("1h30m", "250ms")."""

import re
from typing import Annotated, Self

from pydantic import BeforeValidator, InstanceOf, PlainSerializer

from extender_service.kube.parsing.label_syntax import quoted

_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_PART = re.compile(r"(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<unit>[^.0-9]*)")
_LONGEST = 2**63 - 1


class Duration(int):
    """A number of nanoseconds, which may be negative."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a duration as time.ParseDuration does. Raises ValueError."""
        unsigned = text[1:] if text[:1] in ("+", "-") else text
        if unsigned == "0":
            return cls(0)
        total = 0
        position = 0
        while position < len(unsigned) or not unsigned:
            part = _PART.match(unsigned, position)
            if part is None or not (part["whole"] or part["fraction"]):
                raise ValueError(f"invalid duration {quoted(text)}: write a number and a unit, such as 15s or 1m30s")
            if part["unit"] not in _UNITS:
                problem = f"unknown unit {quoted(part['unit'])}" if part["unit"] else "missing unit"
                raise ValueError(f"{problem} in duration {quoted(text)}: units are ns, us, ms, s, m and h")
            total += _nanoseconds(part["whole"], part["fraction"] or "", _UNITS[part["unit"]])
            position = part.end()
        nanoseconds = -total if text[0] == "-" else total
        if not -_LONGEST - 1 <= nanoseconds <= _LONGEST:
            raise ValueError(f"invalid duration {quoted(text)}: at most 292 years are possible")
        return cls(nanoseconds)

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return self / 10**9

    def __str__(self) -> str:
        nanoseconds = abs(int(self))
        sign = "-" if self < 0 else ""
        if nanoseconds == 0:
            return "0s"
        if nanoseconds < _UNITS["s"]:
            unit = next(unit for unit in ("ms", "µs", "ns") if nanoseconds >= _UNITS[unit])
            return f"{sign}{_decimal(nanoseconds, _UNITS[unit])}{unit}"
        minutes, rest = divmod(nanoseconds, _UNITS["m"])
        hours, minutes = divmod(minutes, 60)
        text = f"{_decimal(rest, _UNITS['s'])}s"
        if hours:
            text = f"{hours}h{minutes}m{text}"
        elif minutes:
            text = f"{minutes}m{text}"
        return sign + text


def _nanoseconds(whole: str, fraction: str, unit: int) -> int:
    digits, scale = 0, 1.0
    for digit in fraction:
        # Go reads digits as long as an int64 holds them; what follows is far below a nanosecond.
        if digits > _LONGEST // 10 or digits * 10 + int(digit) > _LONGEST + 1:
            break
        digits = digits * 10 + int(digit)
        scale *= 10
    # Go multiplies the fraction as a float64.
    return int(whole or "0") * unit + int(digits * (unit / scale))


def _decimal(nanoseconds: int, unit: int) -> str:
    """Return nanoseconds / unit with all decimals and no trailing zeros."""
    whole, rest = divmod(nanoseconds, unit)
    decimals = f"{rest:0{len(str(unit)) - 1}d}".rstrip("0") if rest else ""
    return f"{whole}.{decimals}" if decimals else str(whole)


def _from_text(value: object) -> object:
    if isinstance(value, Duration):
        return value
    if not isinstance(value, str):
        raise ValueError("must be a duration in quotes or with a unit, such as 15s")  # noqa: TRY004 - pydantic's rule
    return Duration.parse(value)


# A field of a configuration: text there, a Duration in Python.
DurationText = Annotated[InstanceOf[Duration], BeforeValidator(_from_text), PlainSerializer(str)]

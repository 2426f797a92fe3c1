"""How the values of options are read. Each function takes the text, and raises ArgumentTypeError for argparse.

What needs pydantic is imported late, so that `version` is fast.
"""

import argparse
import ipaddress
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from extender_service.config.feature_gates import parse_bool

if TYPE_CHECKING:
    from extender_service.config.durations import Duration

T = TypeVar("T")


def parsed_by(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Return a function for argparse that reads a value as `parse` does, which raises ValueError."""

    def read(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read


boolean = parsed_by(parse_bool)


@parsed_by
def go_duration(text: str) -> "Duration":
    """Parse a Go duration such as 1m30s."""
    from extender_service.config.durations import Duration  # noqa: PLC0415

    return Duration.parse(text)


def duration(text: str) -> float:
    """Parse a Go duration to seconds, at least 0."""
    found = go_duration(text)
    if found < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is negative")
    return found.seconds


def positive_duration(text: str) -> float:
    """Parse a Go duration to seconds, more than 0."""
    seconds = duration(text)
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} must be more than 0")
    return seconds


def size(text: str) -> int:
    """Parse a quantity such as 512Mi to bytes, at least 1."""
    from extender_service.kube.parsing.quantities import QuantityError, parse_quantity, whole_value  # noqa: PLC0415

    try:
        found = whole_value(parse_quantity(text))
    except QuantityError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if found < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: give a number of bytes, such as 512Mi")
    return found


def positive_number(text: str) -> int:
    """Parse a whole number, 1 or more."""
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number: give a whole number, 1 or more")
    return int(text)


def int32(text: str) -> int:
    """Parse a whole number of 32 bits."""
    try:
        found = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if not -(2**31) <= found < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} does not fit 32 bits")
    return found


def number(text: str) -> float:
    """Parse a finite number."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return found


def port(text: str) -> int:
    """Parse a port, 0 for any or none."""
    if not text.isascii() or not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: give a number from 0 to 65535")
    return int(text)


def address(text: str) -> str:
    """Parse an IP address."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an IP address") from None


def existing_file(text: str) -> Path:
    """Return the path of a file that exists."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder, not a file")
    if not path.exists():
        raise argparse.ArgumentTypeError(f"there is no file {text}")
    return path

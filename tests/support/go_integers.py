"""Go's arithmetic of int64, with Python's integers."""


def wrapped(number: int) -> int:
    """What int64 holds of a number."""
    return (number + 2**63) % 2**64 - 2**63


def quotient(number: int, divisor: int) -> int:
    """Go's division."""
    rest = abs(number) // abs(divisor)
    return wrapped(rest if (number < 0) is (divisor < 0) else -rest)

"""Changes to bodies of requests: of single bytes, and of values within their JSON."""

import json
from collections.abc import Sequence
from random import Random
from typing import Any

# Where limits of machines, of Go and of Kubernetes lie, and what other readers of JSON make of numbers.
NUMBERS = (
    *("0", "-0", "-1", "1", "127", "128", "255", "256", "65535", "65536", "2147483647", "2147483648", "-2147483649"),
    *("9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "18446744073709551616"),
    *(
        "0.5",
        "1e3",
        "1e308",
        "1e309",
        "-1e-400",
        "1E+2",
        "NaN",
        "Infinity",
        "-Infinity",
        "0x10",
        "1_000",
        "01",
        "9" * 400,
    ),
)
QUANTITIES = (
    *(
        "0",
        "1",
        "-1",
        "+1",
        "100m",
        "1.5",
        ".5",
        "5.",
        ".",
        "",
        "1Gi",
        "1Ki",
        "1e3",
        "1E3",
        "1e",
        "1E",
        "1e-9",
        "1n",
        "1u",
    ),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "9223372036854775807Ei", "1e18", "1e100"),
    *("1e9223372036854775808", "1e-9223372036854775809", "0.0000000001", "1 Gi", "1gi", "1KI", "1e1.5", "0x1", "NaN"),
    *("\u0661", "1\u00a0", "1\n", "9" * 30 + "m", "0." + "9" * 300, "1Pi1", "--1", "1e+5", "1e--5"),
)
TEXTS = (
    *("", " ", "a", "A", "default", "kubernetes.io/hostname", "topology.kubernetes.io/zone", "metadata.name", "a" * 64),
    *("a" * 254, "x" * 20_000, "%", "%s%n%d", "%!v(MISSING)", "a\nlevel=error", "\r\n\r\n", "\x00", "\x7f", "\x1b[31m"),
    *(
        "\u2028",
        "\u202e",
        "é",
        "日本",
        "\U0001f600",
        "\ufeff",
        "\ufffe",
        '"',
        "\\",
        "'",
        "=",
        ",",
        "!",
        "../..",
        "-",
        "_a",
    ),
    *("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "NoSchedule", "NoExecute", "PreferNoSchedule"),
    *(
        "DoNotSchedule",
        "ScheduleAnyway",
        "Honor",
        "Ignore",
        "Never",
        "Always",
        "TCP",
        "0.0.0.0",
        "::",
        "Running",
        "Failed",
    ),
    *("2024-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "-5", "12", "99999999999999999999", "null", "true"),
)
_TOKENS = (
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b'"',
        b"\\",
        b"\\u0000",
        b"\\ud800",
        b"\\udc00",
        b"\\u",
        b"null",
        b"true",
        b"//",
    ),
    *(
        b"\x00",
        b"\xff",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xef\xbb\xbf",
        b"\x1f",
        b"\r\n",
        b"\t",
        b" ",
    ),
    *(number.encode() for number in NUMBERS),
    *(b'"Pod":null,', b'"Nodes":null,', b'"NodeNames":[],', b'"nodenames":["a"],', b'"Error":"%s",', b'"items":[{}],'),
)


def mutate_bytes(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Change a few places."""
    for _ in range(random.randint(1, 4)):
        at = random.randint(0, len(data))
        upto = min(len(data), at + random.choice((1, 1, 2, 4, 16, 64, 1024)))
        match random.randint(0, 7):
            case 0:
                data = (
                    data[:at] + bytes([data[at] ^ (1 << random.randint(0, 7))]) + data[at + 1 :] if data[at:] else data
                )
            case 1:
                data = data[:at]
            case 2:
                data = data[:at] + random.choice(_TOKENS) + data[at:]
            case 3:
                data = data[:at] + random.choice(_TOKENS) + data[upto:]
            case 4:
                data = data[:at] + data[upto:]
            case 5:
                data = data[:at] + data[at:upto] * random.choice((2, 3, 50)) + data[upto:]
            case 6:
                other = random.choice(others)
                data = data[:at] + other[random.randint(0, len(other)) :]
            case _:
                end = at
                while data[end : end + 1].isdigit():
                    end += 1
                data = data[:at] + random.choice(NUMBERS).encode() + data[end:]
    return data


def mutate_json(random: Random, value: Any, others: Sequence[Any]) -> Any:
    """Change a few values, or where they stand; `others` have values that may come in their places."""
    value = json.loads(json.dumps(value))
    for _ in range(random.randint(1, 4)):
        parent, key = _place(random, value)
        if parent is None:
            return _odd(random)
        match random.randint(0, 5):
            case 0 if isinstance(parent, list):
                parent.insert(key, parent[key])
            case 0:
                parent[
                    random.choice((f"new-{random.randint(0, 2**60)}", key.upper(), key.lower(), key + "x", *TEXTS))
                ] = parent[key]
            case 1:
                del parent[key]
            case 2:
                parent[key] = _any_part(random, random.choice(others))
            case 3 if isinstance(parent[key], list) and parent[key]:
                parent[key] = parent[key] * random.choice((2, 3, 30))
            case _:
                parent[key] = _like(random, parent[key])
    return value


def _place(random: Random, value: Any) -> tuple[Any, Any]:
    """Go down to some member or element; returns what holds it, None if the value is neither object nor list."""
    parent, key = None, None
    while isinstance(value, dict | list) and value and (parent is None or random.randint(0, 4)):
        parent = value
        key = random.choice(list(value)) if isinstance(value, dict) else random.randrange(len(value))
        value = parent[key]
    return parent, key


def _any_part(random: Random, value: Any) -> Any:
    parent, key = _place(random, value)
    return value if parent is None else json.loads(json.dumps(parent[key]))


def _like(random: Random, value: Any) -> Any:
    """A value of the same kind, mostly."""
    kind = random.randint(0, 5)
    if kind == 0:
        return _odd(random)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return random.choice((0, 1, -1, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64, 0.5, 1e300))
    if isinstance(value, str):
        if kind == 1:  # one that never came before: what is kept for each would show as memory
            return f"{value[:40]}{random.randint(0, 2**60)}"
        return random.choice(QUANTITIES if value[:1].isdigit() or kind == 2 else TEXTS)
    return type(value)() if value is not None else _odd(random)


def _odd(random: Random) -> Any:
    return random.choice(
        (None, True, 0, -1, 0.1, 2**70, "", "x", "1Gi", [], {}, [[]], [{}], [None], {"": None}, {"a": {}})
    )

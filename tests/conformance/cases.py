"""Cases and verdicts as the oracle reads and writes them, one JSON object per line (see tests/oracle/README.md)."""

import gzip
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

Verdict = dict[str, Any]


class Case(msgspec.Struct):
    """A cluster, a pod to schedule, and a KubeSchedulerConfiguration."""

    name: str
    pod: msgspec.Raw
    objects: list[msgspec.Raw]
    config: dict[str, Any] | None = None

    @property
    def family(self) -> str:
        """The generator's family, which the name starts with."""
        return self.name.split("-")[0]


def read_lines(path: Path) -> Iterator[bytes]:
    """Iterate over the lines of a file, unpacked if it is a .gz, or of standard input if it is called "-"."""
    if path == Path("-"):
        yield from (line for line in sys.stdin.buffer if line.strip())
        return
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        yield from (line for line in file if line.strip())


def read_cases(lines: Iterator[bytes]) -> list[Case]:
    """Decode cases."""
    decoder = msgspec.json.Decoder(Case)
    return [decoder.decode(line) for line in lines]


def read_verdicts(lines: Iterator[bytes]) -> list[Verdict]:
    """Decode verdicts."""
    return [msgspec.json.decode(line) for line in lines]

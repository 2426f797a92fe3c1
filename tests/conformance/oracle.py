"""Builds the oracle, which runs kube-scheduler's own plugins, and asks it."""

import subprocess
import sys
from pathlib import Path

import msgspec

from tests.support.go_programs import build

ORACLE = Path(__file__).parents[1] / "oracle"


def ask(cases: bytes) -> bytes:
    """Return the verdicts on cases, in the same order; both are JSON lines.

    If the oracle ends with an error, it is asked again about each half. The case on which it ends has that error as its
    verdict. Raises RuntimeError if the oracle cannot be built.
    """
    done = subprocess.run([build(ORACLE)], input=cases, capture_output=True)
    if done.returncode == 0:
        return done.stdout
    lines = cases.splitlines(keepends=True)
    if len(lines) > 1:
        middle = len(lines) // 2
        return ask(b"".join(lines[:middle])) + ask(b"".join(lines[middle:]))
    said = done.stderr.decode(errors="replace").strip().partition("\n")[0]
    name = msgspec.json.decode(cases)["name"]
    return msgspec.json.encode({"name": name, "error": f"the oracle ended: {said}"}) + b"\n"


def generate(seed: int, count: int, families: list[str]) -> bytes:
    """Return random cases, `count` of each family."""
    chosen = [f"--family={family}" for family in families]
    command: list[str | Path] = [sys.executable, ORACLE / "generate.py", f"--seed={seed}", f"--count={count}", *chosen]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout

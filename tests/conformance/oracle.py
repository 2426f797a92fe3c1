"""Builds the oracles, which run the own plugins of kube-scheduler of a release, and asks them."""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec

from extender_service.config.feature_gates import parse_gates, resolve_gates
from extender_service.config.release import NEWEST_MINOR
from extender_service.config.rules import Rules, rules_of
from tests.support.go_programs import build

TESTS = Path(__file__).parents[1]
ORACLE = TESTS / "oracle"
# Other releases have the program of the newest one, built of their own modules.
ORACLES = {31: ORACLE, NEWEST_MINOR: TESTS / "kubernetes_1_37" / "oracle_1_37"}
_MODULES = (ORACLES[NEWEST_MINOR].parent / "releases").glob("v1.*.mod")
JUDGED = sorted({*ORACLES, *(int(file.stem.removeprefix("v1.")) for file in _MODULES)})


class Reference(NamedTuple):
    """A kube-scheduler: the release 1.`minor`, with feature gates as --feature-gates has them."""

    minor: int = 31
    gates: str = ""

    @property
    def rules(self) -> Rules:
        """The rules that this project has for it. Raises ValueError for gates that it does not have."""
        return rules_of(self.minor, resolve_gates(parse_gates(self.gates), self.minor).values)

    @property
    def command(self) -> list[str | Path]:
        """What runs its oracle. Raises RuntimeError if that cannot be built."""
        own = ORACLES.get(self.minor)
        program = build(own) if own else build(ORACLES[NEWEST_MINOR], self.minor)
        return [program, *([f"-gates={self.gates}"] if self.gates else [])]


OLDEST = Reference()


def ask(cases: bytes, reference: Reference = OLDEST) -> bytes:
    """Return the verdicts on cases, in the same order; both are JSON lines.

    If the oracle ends with an error, it is asked again about each half. The case on which it ends has that error as its
    verdict. Raises RuntimeError if the oracle cannot be built.
    """
    done = subprocess.run(reference.command, input=cases, capture_output=True)
    if done.returncode == 0:
        return done.stdout
    lines = cases.splitlines(keepends=True)
    if len(lines) > 1:
        middle = len(lines) // 2
        return ask(b"".join(lines[:middle]), reference) + ask(b"".join(lines[middle:]), reference)
    said = done.stderr.decode(errors="replace").strip().partition("\n")[0]
    name = msgspec.json.decode(cases)["name"]
    return msgspec.json.encode({"name": name, "error": f"the oracle ended: {said}"}) + b"\n"


def generate(seed: int, count: int, families: list[str]) -> bytes:
    """Return random cases, `count` of each family."""
    chosen = [f"--family={family}" for family in families]
    command: list[str | Path] = [sys.executable, ORACLE / "generate.py", f"--seed={seed}", f"--count={count}", *chosen]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout

"""One seed has one history, wherever its objects lie in memory."""

import os
import re
import subprocess
import sys

import pytest

_SEEDS = 2


def digests(*more: str, ballast: int, allocator: str) -> list[str]:
    """A digest of the history of each seed, from processes with a layout of memory of their own."""
    arguments = ("--seed", "1", "--seeds", str(_SEEDS), "--minutes", "2", "--replicas", "2", "--pods", "20", *more)
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONMALLOC": allocator}
    command = [sys.executable, "-m", "tests.worlds", *arguments, "--digests", "--ballast", str(ballast)]
    ran = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True, timeout=250)
    return [line for line in ran.stdout.splitlines() if re.fullmatch(r"seed \d+: [0-9a-f]{64}", line)]


@pytest.mark.parametrize("more", [("--faults",), ("--mode", "beside"), ("--mode", "replace"), ("--others",)])
def test_a_seed_has_the_same_history_in_another_layout_of_memory(more: tuple[str, ...]) -> None:
    first = digests(*more, ballast=0, allocator="pymalloc")
    second = digests(*more, ballast=100_000, allocator="malloc")
    assert len(first) == _SEEDS
    assert len({line.split()[-1] for line in first}) == _SEEDS  # another seed has another history
    assert first == second

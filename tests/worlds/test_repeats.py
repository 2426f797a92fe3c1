"""One seed has one history, wherever its objects lie in memory."""

import os
import subprocess
import sys

_SEEDS = 4


def digests(*, ballast: int, allocator: str) -> list[str]:
    """A digest of the history of each seed, from processes with a layout of memory of their own."""
    arguments = ("--seeds", str(_SEEDS), "--minutes", "3", "--replicas", "2", "--pods", "20", "--faults")
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONMALLOC": allocator}
    command = [sys.executable, "-m", "tests.worlds", *arguments, "--ballast", str(ballast)]
    ran = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True, timeout=250)
    return sorted(ran.stdout.splitlines())


def test_a_seed_has_the_same_history_in_another_layout_of_memory() -> None:
    first = digests(ballast=0, allocator="pymalloc")
    second = digests(ballast=100_000, allocator="malloc")
    assert len(first) == _SEEDS
    assert len({line.split()[-1] for line in first}) == _SEEDS  # another seed has another history
    assert first == second

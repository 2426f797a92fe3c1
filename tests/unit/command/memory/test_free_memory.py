import ctypes
import subprocess
import sys
import threading

import pytest

from extender_service.command.memory.free_memory import returning_free_memory

# Of 40 MB in blocks of 2 KB, one in fifty stays, so that glibc alone gives nothing back. Prints the memory in KB of the
# process before, and once it has fallen by half of that, or after 20 seconds.
_FREES_BETWEEN_BLOCKS = """
import contextlib, sys, time
from extender_service.command.memory.free_memory import returning_free_memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4

kept = [bytes(2000) for _ in range(20_000)][::50]
before = resident()
with returning_free_memory(0.01) if sys.argv[1] == "returning" else contextlib.nullcontext():
    end = time.monotonic() + float(sys.argv[2])
    while resident() > before - 20_000 and time.monotonic() < end:
        time.sleep(0.01)
print(before, resident())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library is not glibc")
def test_memory_that_lies_free_between_blocks_in_use_goes_back_to_the_system() -> None:
    before, after = _resident("returning", seconds=20)
    assert after < before - 20_000
    before, after = _resident("keeping", seconds=0.2)
    assert after > before - 20_000


def _resident(mode: str, *, seconds: float) -> tuple[int, int]:
    command = [sys.executable, "-c", _FREES_BETWEEN_BLOCKS, mode, str(seconds)]
    before, after = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
    return int(before), int(after)


def test_the_thread_ends_with_the_program() -> None:
    with returning_free_memory(0.01):
        thread = next(each for each in threading.enumerate() if each.name == "free-memory")
    thread.join(20)
    assert not thread.is_alive()


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    with returning_free_memory(0.01):
        assert not any(each.name == "free-memory" for each in threading.enumerate())

import ctypes
import mmap
import subprocess
import sys
import threading
from pathlib import Path
from queue import Queue
from types import SimpleNamespace

import pytest

from extender_service.command.memory import huge_pages
from extender_service.command.memory.huge_pages import begin_to_use_huge_pages, use_huge_pages

_MIB = 1 << 20

# Prints the memory in KiB of the process, and how much of it is in huge pages: before, and once all has been moved.
_MOVES_ITS_MEMORY = """
from extender_service.command.memory.huge_pages import use_huge_pages

def sizes():
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return [int(line.split()[1]) for line in lines if line.startswith(("Rss:", "AnonHugePages:"))]

kept = [bytes(2000) for _ in range(20_000)]
before = sizes()
use_huge_pages()
print(*before, *sizes())
assert kept == [bytes(2000)] * 20_000
"""


def _can_collapse() -> bool:
    """Return whether this system moves memory into huge pages when asked to."""
    madvise = getattr(ctypes.CDLL(None), "madvise", None)
    if madvise is None:
        return False
    with mmap.mmap(-1, 8 * _MIB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.write(b"x" * (8 * _MIB))
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        start = -(-address // (2 * _MIB)) * 2 * _MIB
        return bool(madvise(ctypes.c_void_p(start), ctypes.c_size_t(2 * _MIB), 25) == 0)


@pytest.mark.skipif(not _can_collapse(), reason="the system moves no memory into huge pages")
def test_memory_in_use_moves_into_huge_pages_and_does_not_grow() -> None:
    command = [sys.executable, "-c", _MOVES_ITS_MEMORY]
    printed = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
    resident, huge, resident_after, huge_after = map(int, printed)
    assert huge_after > huge + 2_000  # where memory is scattered, only parts move
    assert resident_after < 1.1 * resident


_SMAPS = """\
00400000-00800000 rw-p 00000000 00:00 0                          [heap]
Size:               4096 kB
Rss:                4000 kB
VmFlags: rd wr mr mw me ac
7f0000000000-7f0000800000 rw-p 00000000 00:00 0
Size:               8192 kB
Rss:                 100 kB
VmFlags: rd wr mr mw me ac
7f0001000000-7f0001400000 rw-p 00000000 00:00 0
Size:               4096 kB
Rss:                4096 kB
VmFlags: rd wr mr mw me ac
7f0002000000-7f0002400000 r-xp 00000000 fe:00 123                /usr/lib/libpython3.so
Size:               4096 kB
Rss:                4096 kB
VmFlags: rd ex mr mw me
7f0003000000-7f0003400000 rw-p 00000000 fe:00 123                /usr/lib/libpython3.so
Size:               4096 kB
Rss:                4096 kB
VmFlags: rd wr mr mw me ac
7ffc00000000-7ffc00400000 rw-p 00000000 00:00 0                  [stack]
Size:               4096 kB
Rss:                4096 kB
VmFlags: rd wr mr mw me gd ac
"""


def test_files_stacks_and_memory_that_is_mostly_not_in_use_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    smaps = tmp_path / "smaps"
    smaps.write_text(_SMAPS)
    moved: list[tuple[int | None, int, int]] = []

    class _Library:
        @staticmethod
        def madvise(start: ctypes.c_void_p, size: ctypes.c_size_t, advice: int) -> int:
            moved.append((start.value, size.value, advice))
            return -1 if len(moved) == 1 else 0

    monkeypatch.setattr(huge_pages, "_MAPPINGS", smaps)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: _Library())
    use_huge_pages()
    assert moved == [(0x400000, 4 * _MIB, 25), (0x7F0001000000, 4 * _MIB, 25)]


@pytest.mark.parametrize("lacking", ["madvise", "smaps"])
def test_another_system_is_left_alone(lacking: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def not_called(*_: object) -> int:
        raise AssertionError

    library = SimpleNamespace() if lacking == "madvise" else SimpleNamespace(madvise=not_called)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    (tmp_path / "smaps").write_text(_SMAPS)
    monkeypatch.setattr(huge_pages, "_MAPPINGS", tmp_path / ("smaps" if lacking == "madvise" else "none"))
    use_huge_pages()


def test_the_program_goes_on_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    moved_by: Queue[str] = Queue()
    monkeypatch.setattr(huge_pages, "use_huge_pages", lambda: moved_by.put(threading.current_thread().name))
    begin_to_use_huge_pages()
    assert moved_by.get(timeout=20) == "huge-pages"

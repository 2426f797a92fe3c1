"""Moves memory that stays into huge pages, on Linux from 6.1 on.

A call or an attempt touches objects in more pages of 4 KiB than the processor's TLB has entries for, so it takes a
tenth of its time to look these pages up. Pages of 2 MiB are few enough. The memory in use stays the same.
"""

import ctypes
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

_HUGE_BYTES = 2 << 20
# From linux/mman.h: collapse a range into huge pages now, whatever is set for the system. Older kernels refuse it.
_MADV_COLLAPSE = 25
_MAPPINGS = Path("/proc/self/smaps")
_MAPPING = re.compile(
    r"^(?P<start>[0-9a-f]+)-(?P<end>[0-9a-f]+) rw-p [0-9a-f]+ \S+ 0 *(?:\[heap\])?\n"
    r"(?:\S+: .*\n)*?Rss: +(?P<resident_kib>\d+) kB",
    re.MULTILINE,
)
_Madvise = Callable[[ctypes.c_void_p, ctypes.c_size_t, int], int]


def begin_to_use_huge_pages() -> None:
    """Move the memory in use into huge pages, in a thread of its own.

    That takes 3 to 6 ms for each huge page; the program goes on meanwhile.
    """
    threading.Thread(target=use_huge_pages, name="huge-pages", daemon=True).start()


def use_huge_pages() -> None:
    """Move the memory in use into huge pages. Does nothing where the system cannot."""
    madvise: _Madvise | None = getattr(ctypes.CDLL(None), "madvise", None)
    if madvise is None:
        return
    try:
        smaps = _MAPPINGS.read_text()
    except OSError:
        return  # not Linux, or a sandbox that shows no mappings
    for start, end in _full_mappings(smaps):
        first, last = -(-start // _HUGE_BYTES) * _HUGE_BYTES, end // _HUGE_BYTES * _HUGE_BYTES
        if first < last:
            # Parts that cannot be moved stay as they are, and the others are moved all the same.
            madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), _MADV_COLLAPSE)


def _full_mappings(smaps: str) -> Iterator[tuple[int, int]]:
    """Yield begin and end of the heap, and of other memory of no file, from the text of /proc/PID/smaps.

    Where less than half is in use, as in the stacks of threads, huge pages would take more memory.
    """
    for mapping in _MAPPING.finditer(smaps):
        start, end = int(mapping["start"], 16), int(mapping["end"], 16)
        if 2 * 1024 * int(mapping["resident_kib"]) >= end - start:
            yield start, end

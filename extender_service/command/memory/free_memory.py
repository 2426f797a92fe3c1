"""Returns memory that is free to the system.

Memory in use stays flat for hours while pods come and go, but glibc keeps what lies free between blocks in use. So the
process would grow by some 200 KiB a minute for hours.
"""

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# With 5,000 nodes and 150,000 pods, it takes 2 to 6 ms.
_SECONDS = 60.0


@contextmanager
def returning_free_memory(seconds: float = _SECONDS) -> Iterator[None]:
    """Return free memory to the system every `seconds`, from a thread of its own. Does nothing without glibc."""
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        yield
        return
    stop = threading.Event()
    threading.Thread(target=_trim, args=(trim, seconds, stop), name="free-memory", daemon=True).start()
    try:
        yield
    finally:
        stop.set()


def _trim(trim: Callable[[int], int], seconds: float, stop: threading.Event) -> None:
    while not stop.wait(seconds):
        trim(0)

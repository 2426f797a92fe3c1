"""How much memory something takes, for good or for a while."""

import gc
import tracemalloc
from collections.abc import Callable

MIB = 1 << 20


def kept_bytes(work: Callable[[], object]) -> int:
    """Do some work; returns the bytes that Python and NumPy keep of it once it is done."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def peak_bytes(work: Callable[[], object]) -> int:
    """Do some work; returns the most bytes that Python and NumPy have of it at one time."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

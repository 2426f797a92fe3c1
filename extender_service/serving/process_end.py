"""Signals that end the process at once, also where it is the first of its container.

The kernel drops a signal to the first process of a PID namespace if its action is the default one (pid_namespaces(7)).
There the action is C's `_exit`, which needs no interpreter, so it also ends a process whose code is stuck. The exit
status is the signal's number.
"""

import ctypes
import os
import signal

from extender_service.seams import SignalHandler

_FIRST_PID = 1


def set_signal_handler(number: int, handler: SignalHandler) -> SignalHandler:
    """Set what a signal does, as signal.signal, and return what it did before.

    SIG_DFL is for signals that end a process by default, and ends the first process of a container, too.
    """
    before = signal.signal(number, handler)
    if handler == signal.SIG_DFL and os.getpid() == _FIRST_PID:
        libc = ctypes.CDLL(None)
        libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
        libc.signal.restype = ctypes.c_void_p
        libc.signal(number, ctypes.cast(libc._exit, ctypes.c_void_p))  # noqa: SLF001 - its name in C
    return before

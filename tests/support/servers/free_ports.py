"""Ports for servers that are told which one to listen on."""

import socket
from random import SystemRandom

# Below what Linux and macOS give out by themselves, from 32768 or 49152 on: so no server or client of another test gets
# the port before the server that it is for.
_FIRST, _LAST = 10_000, 32_000
# Not the module's functions: a test may have seeded them, and another process's test in the same way.
_random = SystemRandom()


def free_port() -> int:
    """Return a free port of 127.0.0.1, outside the range from which the kernel gives ports to others."""
    while True:
        port = _random.randrange(_FIRST, _LAST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port

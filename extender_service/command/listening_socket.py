"""Opens the sockets on which a program listens, as Go does."""

import ipaddress
import socket

from extender_service.seams import Listen

_BACKLOG = 1024


def listen(open_socket: Listen, address: str, port: int) -> socket.socket:
    """Listen on an address of this machine. Raises OSError.

    0.0.0.0 and :: stand for all addresses of both IP families, where the machine has both; a pod may be probed by
    either. Any other address keeps to its family.
    """
    if _is_unspecified(address) and socket.has_dualstack_ipv6():
        return open_socket(("::", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return open_socket((address, port), family=family, backlog=_BACKLOG)


def reason_without_address(error: OSError) -> str:
    """Return why `listen` failed, without the address that it tried: the user may have written another one."""
    return (error.strerror or str(error)).partition(" (while attempting")[0]


def _is_unspecified(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_unspecified
    except ValueError:
        return False  # a name

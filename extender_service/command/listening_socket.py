"""Opens the sockets on which a program listens, as Go does."""

import errno
import ipaddress
import socket

from extender_service.command.start_error import StartError
from extender_service.seams import Listen

_BACKLOG = 1024


def listen(
    open_socket: Listen,
    address: str,
    port: int,
    port_option: str,
    address_option: str = "--bind-address",
    *,
    port_0: str = "for any",
    shares_port: bool = False,
) -> socket.socket:
    """Listen on an address of this machine. Raises StartError, which names the options and says what port 0 stands for.

    0.0.0.0 and :: stand for all addresses of both IP families, where the machine has both; a pod may be probed by
    either. Any other address keeps to its family. With `shares_port`, other processes may listen there, too.
    """
    where = f"{host_in_url(address)}:{port}"
    try:
        return _open(open_socket, address, port, shares_port=shares_port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise StartError(
                f"{port_option}: {where} is in use by another program; give another port, or 0 {port_0}"
            ) from error
        raise StartError(
            f"{address_option}, {port_option}: cannot listen on {where}: {_reason(error)}; give an address of this "
            "machine, 0.0.0.0 or :: for all, and a port that this user may open"
        ) from error


def host_in_url(address: str) -> str:
    """Return an address as a URL has it: that of IPv6 in brackets."""
    return f"[{address}]" if ":" in address else address


def _open(open_socket: Listen, address: str, port: int, *, shares_port: bool) -> socket.socket:
    if _is_unspecified(address) and socket.has_dualstack_ipv6():
        return open_socket(
            ("::", port), family=socket.AF_INET6, backlog=_BACKLOG, reuse_port=shares_port, dualstack_ipv6=True
        )
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return open_socket((address, port), family=family, backlog=_BACKLOG, reuse_port=shares_port)


def _reason(error: OSError) -> str:
    """Return why no socket was opened, without the address that was tried: the user may have written another one."""
    return (error.strerror or str(error)).partition(" (while attempting")[0]


def _is_unspecified(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_unspecified
    except ValueError:
        return False  # a name

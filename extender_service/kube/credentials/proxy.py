"""The proxy to the API server, from the environment.

The rules are those of Go's net/http (golang.org/x/net/http/httpproxy). Those of Python and httpx differ where it
matters: they read a CIDR in NO_PROXY, such as 10.96.0.0/12 for a cluster's Services, as a host name.
"""

import ipaddress
import os
from urllib.parse import urlsplit


def environment_proxy(server: str) -> str:
    """Return the URL of the proxy for a server's URL from HTTPS_PROXY or HTTP_PROXY and NO_PROXY; empty if none."""
    url = urlsplit(server)
    host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
    proxy = _variable(f"{url.scheme}_proxy")
    if not proxy or _is_local(host) or any(_matches(entry, host, port) for entry in _variable("no_proxy").split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(name: str) -> str:
    return os.environ.get(name.upper()) or os.environ.get(name) or ""


def _is_local(host: str) -> bool:
    address = _address(host)
    return address.is_loopback if address else host == "localhost"


def _matches(entry: str, host: str, port: int) -> bool:
    """Return whether an entry of NO_PROXY covers a host.

    An entry is *, an address, a CIDR or a domain; addresses and domains may have a port.
    """
    entry = entry.strip().lower()
    if entry in ("", "*"):
        return entry == "*"
    address = _address(host)
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    if _address(entry) is None and ":" in entry:
        entry, _, entry_port = entry.rpartition(":")
        if entry_port != str(port):
            return False
        entry = entry.strip("[]")
    if address:
        return address == _address(entry)
    if entry.startswith(("*.", ".")):
        return host.endswith(entry.removeprefix("*"))
    return host == entry or host.endswith("." + entry)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None

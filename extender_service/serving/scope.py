"""What the server adds to the ASGI scope of a request."""

from collections.abc import Callable

# When the head of the request was complete, in seconds of the clock of the server's Connections.
ARRIVED = "extender_service.arrived"
# Has a HungUp as its value.
HUNG_UP = "extender_service.hung_up"

# Returns whether the caller has closed the connection, even if the event loop has not read that yet.
HungUp = Callable[[], bool]

# The ssl.SSLObject of the connection, where a server sets it.
TLS_CONNECTION = "extender_service.tls_connection"

"""What the server adds to the ASGI scope of a request."""

from collections.abc import Callable

# When the head of the request had come, in seconds of the clock of the server's Connections.
ARRIVED = "extender_service.arrived"
# A HungUp.
HUNG_UP = "extender_service.hung_up"

# Returns whether the caller is gone: at once, also if its end has only just come.
HungUp = Callable[[], bool]

"""Exceptions that end a scheduling cycle without being a fault of the plugin."""


class PluginError(Exception):
    """Raised by a plugin to end the cycle with this message, where that is no fault of the plugin itself."""


class NoTimeLeftError(PluginError):
    """Raised after the deadline of a decision."""

    def __init__(self) -> None:
        super().__init__("the time for this decision is over (--decision-timeout)")

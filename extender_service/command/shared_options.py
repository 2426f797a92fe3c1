"""The command line's options that several commands have. Each function takes what is like argparse's add_argument."""

from collections.abc import Callable

from extender_service.command.option_values import duration

AddOption = Callable[..., None]

DEFAULT_WATCHDOG_SECONDS = 30.0


def add_watchdog_option(add: AddOption) -> None:
    """Add the limit on how long the event loop may be blocked."""
    add(
        "--watchdog-timeout",
        type=duration,
        default=DEFAULT_WATCHDOG_SECONDS,
        metavar="DURATION",
        help="how long code may block the event loop; then the process ends, for the kubelet to restart it; 0 for no "
        f"limit (default: {DEFAULT_WATCHDOG_SECONDS:g}s)",
    )

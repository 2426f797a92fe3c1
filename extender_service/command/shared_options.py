"""The command line's options that several commands have. Each function takes what is like argparse's add_argument."""

import logging

from extender_service.command.emulation import add_emulation_options
from extender_service.command.option_parser import AddOption
from extender_service.command.option_values import duration, existing_file, parsed_by
from extender_service.observability.logs import parse_log_level

DEFAULT_WATCHDOG_SECONDS = 30.0


def add_config_options(add: AddOption) -> None:
    """Add what says which plugins decide, and by the rules of which release."""
    add(
        "--config",
        type=existing_file,
        metavar="FILE",
        help="KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1)",
    )
    add(
        "--plugin",
        action="append",
        metavar="MODULE:CLASS",
        help="a plugin class to load, in addition to the plugins of installed packages, and to enable in --config; "
        "without --config, it runs beside the default plugins; repeatable",
    )
    add_emulation_options(add)


def add_log_options(add: AddOption, *names: str) -> None:
    """Add the level of the log, under these `names` or --log-level, and its format."""
    add(
        "-v",
        *(names or ("--log-level",)),
        dest="log_level",
        type=parsed_by(parse_log_level),
        default=logging.INFO,
        metavar="LEVEL",
        help="debug, info, warning, error, or a number as for kube-scheduler (default: info)",
    )
    add("--log-format", choices=("text", "json"), default="text", help="(default: text)")


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

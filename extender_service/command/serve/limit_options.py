"""The command line's options for limits on calls and connections."""

import argparse

from extender_service.command.option_parser import AddOption
from extender_service.command.option_values import positive_duration, positive_number, size
from extender_service.command.shared_options import add_watchdog_option
from extender_service.extender.overload.overload import CallLimits
from extender_service.serving.connection_limits import ConnectionLimits

_CALLS = CallLimits()
_CONNECTIONS = ConnectionLimits()


def add_limit_options(add: AddOption) -> None:
    """Add the options. `add` has the signature of argparse's add_argument."""

    def add_size(option: str, default: int, what: str) -> None:
        unit = f"{default >> 20}Mi" if default >= 1 << 20 else f"{default >> 10}Ki"
        add(option, type=size, default=default, metavar="SIZE", help=f"{what} (default: {unit})")

    def add_number(option: str, default: int, what: str) -> None:
        add(option, type=positive_number, default=default, metavar="NUMBER", help=f"{what} (default: {default})")

    def add_seconds(option: str, default: float, what: str) -> None:
        help_text = f"{what} (default: {default:g}s)"
        add(option, type=positive_duration, default=default, metavar="DURATION", help=help_text)

    add_size("--max-body-size", _CALLS.body_bytes, "the largest body of a request; the answer to a larger one is 413")
    add_size("--max-bodies-size", _CALLS.bodies_bytes, "the total size of request bodies and unsent answers in memory")
    add_number("--max-requests", _CALLS.requests, "calls at a time except bind; more calls fail at once")
    add_number("--max-bindings", _CALLS.bindings, "bind calls at a time; one may wait for minutes")
    add_seconds(
        "--decision-timeout",
        _CALLS.decision_seconds,
        "the time after which a call other than bind fails; set less than kube-scheduler's httpTimeout",
    )
    add_number("--max-connections", _CONNECTIONS.connections, "open connections; a further one replaces an idle one")
    add_size("--max-header-size", _CONNECTIONS.header_bytes, "the largest header of a request")
    add_seconds(
        "--header-timeout", _CONNECTIONS.header_seconds, "the time for a client to send the header of a request"
    )
    add_seconds(
        "--request-timeout",
        _CONNECTIONS.request_seconds,
        "the time for a client to send a whole request, and again to read the answer",
    )
    add_seconds(
        "--idle-timeout",
        _CONNECTIONS.idle_seconds,
        "the time after which an idle connection is closed; set more than kube-scheduler's 90 s",
    )
    add_seconds("--tls-handshake-timeout", _CONNECTIONS.handshake_seconds, "the time for a TLS handshake")
    add_watchdog_option(add)


def call_limits(options: argparse.Namespace) -> CallLimits:
    """Return the limits on calls from parsed options."""
    return CallLimits(
        body_bytes=options.max_body_size,
        bodies_bytes=options.max_bodies_size,
        requests=options.max_requests,
        bindings=options.max_bindings,
        decision_seconds=options.decision_timeout,
    )


def connection_limits(options: argparse.Namespace) -> ConnectionLimits:
    """Return the limits on connections from parsed options."""
    return ConnectionLimits(
        connections=options.max_connections,
        handshake_seconds=options.tls_handshake_timeout,
        header_bytes=options.max_header_size,
        header_seconds=options.header_timeout,
        request_seconds=options.request_timeout,
        idle_seconds=options.idle_timeout,
        unsent_bytes=options.max_bodies_size,
    )

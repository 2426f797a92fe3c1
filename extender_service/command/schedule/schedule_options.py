"""The options of `schedule`: kube-scheduler's flags, under its names and with its values (app/options/options.go).

A flag that has no effect here is accepted all the same, so that a manifest of kube-scheduler's need not be changed; the
log says so.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

from extender_service.command.emulation import EmulationOptions, emulation_options
from extender_service.command.option_parser import AddOption
from extender_service.command.option_values import (
    address,
    boolean,
    go_duration,
    int32,
    number,
    port,
    positive_duration,
)
from extender_service.command.shared_options import add_config_options, add_log_options, add_watchdog_option
from extender_service.command.unused_options import given_among
from extender_service.config.default_decision_time import DEFAULT_DECISION_SECONDS

if TYPE_CHECKING:  # these need pydantic, which `version` should not wait for
    from extender_service.config.types import KubeSchedulerConfiguration

DEFAULT_SECURE_PORT: Final = 10259
ALWAYS_ALLOWED_PATHS: Final = ("/healthz", "/readyz", "/livez")
TLS_VERSIONS: Final = ("VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13")

# Options that change a field of the configuration: the name, the field's, how its value is read, and what it is.
_ELECTION: Final = (
    ("leader-elect", "leader_elect", "bool", "lead only while holding the lease, one of several replicas"),
    (
        "leader-elect-lease-duration",
        "lease_duration",
        "duration",
        "how long others wait for a lease that is not renewed",
    ),
    ("leader-elect-renew-deadline", "renew_deadline", "duration", "how long the leader tries to renew before it ends"),
    ("leader-elect-retry-period", "retry_period", "duration", "the time between two tries"),
    ("leader-elect-resource-lock", "resource_lock", "text", "only leases"),
    ("leader-elect-resource-name", "resource_name", "text", "the lease's name"),
    ("leader-elect-resource-namespace", "resource_namespace", "text", "the lease's namespace"),
)
_CONNECTION: Final = (
    ("kubeconfig", "kubeconfig", "text", "how to reach the API server (default: the pod's service account)"),
    ("kube-api-qps", "qps", "number", "requests to the API server a second (default: 50)"),
    ("kube-api-burst", "burst", "whole", "requests to the API server at once (default: 100)"),
    ("kube-api-content-type", "content_type", "text", "without effect: this program speaks JSON"),
)
_DEBUGGING: Final = (
    ("profiling", "enable_profiling", "bool", "without effect"),
    ("contention-profiling", "enable_contention_profiling", "bool", "without effect"),
)
# Go's runtime and TLS, HTTP/2, log files, and gates that depend on other servers: what this program does not have.
_WITHOUT_EFFECT: Final = (
    "allow-metric-labels",
    "allow-metric-labels-manifest",
    "disable-http2-serving",
    "disabled-metrics",
    "http2-max-streams-per-connection",
    "log-flush-frequency",
    "log-json-info-buffer-size",
    "log-json-split-stream",
    "log-text-info-buffer-size",
    "log-text-split-stream",
    "min-compatibility-version",
    "permit-address-sharing",
    "show-hidden-metrics-for-version",
    "tls-curve-preferences",
    "vmodule",
)
_SWITCHES: Final = {"disable-http2-serving", "log-json-split-stream", "log-text-split-stream", "permit-address-sharing"}


@dataclass(frozen=True)
class SecureServingOptions:
    """Where and how HTTPS is served; port 0 serves nothing."""

    bind_address: str
    port: int
    cert_dir: Path | None
    cert_file: Path | None
    key_file: Path | None
    min_version: str
    cipher_suites: tuple[str, ...]
    shares_port: bool


@dataclass(frozen=True)
class AuthenticationOptions:
    """Who calls. Without a kubeconfig, the pod's service account is used; outside of a cluster, no token is known."""

    kubeconfig: Path | None
    skips_lookup: bool
    tolerates_lookup_failure: bool
    cache_seconds: float
    client_ca_file: Path | None
    request_header_ca_file: Path | None
    request_header_names: tuple[str, ...]
    username_headers: tuple[str, ...]
    group_headers: tuple[str, ...]
    extra_prefixes: tuple[str, ...]
    uid_headers: tuple[str, ...]


@dataclass(frozen=True)
class AuthorizationOptions:
    """What callers may do."""

    kubeconfig: Path | None
    always_allowed_paths: tuple[str, ...]
    allowed_cache_seconds: float
    denied_cache_seconds: float


@dataclass(frozen=True)
class ConfigurationFlags:
    """What the command line says about fields of the configuration, by the names of Python.

    Those of `election` override a file. The others count only without one, as they are deprecated.
    """

    election: Mapping[str, Any]
    connection: Mapping[str, Any]
    debugging: Mapping[str, Any]

    def change(self, config: "KubeSchedulerConfiguration", *, has_file: bool) -> "KubeSchedulerConfiguration":
        """Return the configuration with what the flags say."""
        election = config.leader_election.model_copy(update=dict(self.election))
        changed: dict[str, Any] = {"leader_election": election}
        if not has_file:
            changed["client_connection"] = config.client_connection.model_copy(update=dict(self.connection))
            changed |= self.debugging
        return config.model_copy(update=changed)


@dataclass(frozen=True)
class ScheduleOptions:
    """The options of `schedule`. `extender-service schedule --help` describes them.

    `decision_seconds` are None where the times of the lease decide. `without_effect` are the names of options that were
    given, and change nothing here.
    """

    config: Path | None
    write_config_to: Path | None
    master: str
    plugins: Sequence[str]
    flags: ConfigurationFlags
    emulation: EmulationOptions
    max_in_unschedulable_seconds: float
    decision_seconds: float | None
    watchdog_seconds: float
    serving: SecureServingOptions
    authentication: AuthenticationOptions
    authorization: AuthorizationOptions
    without_effect: tuple[str, ...]
    log_level: int
    log_format: Literal["text", "json"]


def add_schedule_options(add: AddOption) -> None:
    """Add the options. `add` is like argparse's add_argument."""
    add_config_options(add)
    add("--write-config-to", metavar="FILE", type=Path, help="write the effective configuration to this file, and exit")
    add("--master", default="", metavar="URL", help="the API server's URL; overrides the one in the kubeconfig")
    for name, _, kind, what in _ELECTION:
        _add(add, name, kind, f"{what}; overrides the configuration's leaderElection")
    for name, _, kind, what in (*_CONNECTION, *_DEBUGGING):
        _add(add, name, kind, f"deprecated, ignored with --config: {what}")
    add(
        "--pod-max-in-unschedulable-pods-duration",
        type=go_duration,
        default="5m",
        metavar="DURATION",
        help="how long a pod waits for an event that could help, at most, before it is tried again (default: 5m)",
    )
    _add_time_limits(add)
    _add_serving_options(add)
    _add_authentication_options(add)
    _add_authorization_options(add)
    for name in _WITHOUT_EFFECT:
        _add(add, name, "bool" if name in _SWITCHES else "text", "accepted, without effect")
    add_log_options(add, "--v", "--log-level")
    add("--logging-format", dest="log_format", choices=("text", "json"), help="the same as --log-format")


def _add_time_limits(add: AddOption) -> None:
    """Add options that kube-scheduler does not have, and `serve` has."""
    add(
        "--decision-timeout",
        type=positive_duration,
        metavar="DURATION",
        help="how long plugins may take in one attempt; then it fails, and the pod backs off (default: "
        f"{DEFAULT_DECISION_SECONDS:g}s, or half of leaderElection's renewDeadline without its retryPeriod, or of "
        "--watchdog-timeout, if that is less)",
    )
    add_watchdog_option(add)


def _add_serving_options(add: AddOption) -> None:
    add(
        "--bind-address",
        type=address,
        default="0.0.0.0",  # noqa: S104 - kube-scheduler's; every path but health needs authorization
        metavar="ADDRESS",
        help="the address to serve HTTPS on; 0.0.0.0 or :: for all, of both IP families (default: 0.0.0.0)",
    )
    add(
        "--secure-port",
        type=port,
        default=DEFAULT_SECURE_PORT,
        metavar="PORT",
        help=f"the port for health, metrics and configuration over HTTPS; 0 for none (default: {DEFAULT_SECURE_PORT})",
    )
    _add(add, "permit-port-sharing", "bool", "let other processes listen on the port, too (SO_REUSEPORT)")
    add("--cert-dir", type=Path, metavar="FOLDER", help="where a self-signed certificate is kept (default: in memory)")
    add("--tls-cert-file", type=Path, metavar="FILE", help="the certificate (PEM); read again when the file changes")
    add("--tls-private-key-file", type=Path, metavar="FILE", help="the key of --tls-cert-file (PEM)")
    add("--tls-min-version", choices=TLS_VERSIONS, default="VersionTLS12", help="(default: VersionTLS12)")
    _add_list(add, "tls-cipher-suites", (), "cipher suites up to TLS 1.2, by Go's names (default: OpenSSL's)")
    add("--tls-sni-cert-key", type=_one_certificate_only, metavar="FILES", help="refused: there is one certificate")


def _add_authentication_options(add: AddOption) -> None:
    add(
        "--authentication-kubeconfig",
        type=_text,
        metavar="FILE",
        help="the API server to ask about tokens and client authorities (default: the pod's service account)",
    )
    _add(add, "authentication-skip-lookup", "bool", "do not read client authorities from the API server")
    _add(
        add,
        "authentication-tolerate-lookup-failure",
        "bool",
        "start even if client authorities cannot be read (default: true)",
    )
    add(
        "--authentication-token-webhook-cache-ttl",
        type=go_duration,
        default="10s",
        metavar="DURATION",
        help="how long an answer about a token is used again (default: 10s)",
    )
    add("--client-ca-file", type=Path, metavar="FILE", help="authorities of client certificates (PEM)")
    add(
        "--requestheader-client-ca-file",
        type=Path,
        metavar="FILE",
        help="authorities of proxies that name the user in headers (PEM)",
    )
    _add_list(add, "requestheader-allowed-names", (), "common names of such proxies (default: any)")
    _add_list(add, "requestheader-username-headers", ("x-remote-user",), "headers with the user's name")
    _add_list(add, "requestheader-uid-headers", (), "headers with the user's UID (default: none)")
    _add_list(add, "requestheader-group-headers", ("x-remote-group",), "headers with the user's groups")
    _add_list(
        add, "requestheader-extra-headers-prefix", ("x-remote-extra-",), "how headers with more about the user begin"
    )


def _add_authorization_options(add: AddOption) -> None:
    add(
        "--authorization-kubeconfig",
        type=_text,
        metavar="FILE",
        help="the API server to ask what a user may do (default: the pod's service account)",
    )
    _add_list(add, "authorization-always-allow-paths", ALWAYS_ALLOWED_PATHS, "paths that are open to everyone")
    for name in ("authorized", "unauthorized"):
        add(
            f"--authorization-webhook-cache-{name}-ttl",
            type=go_duration,
            default="10s",
            metavar="DURATION",
            help=f"how long an answer that a user is {name} is used again (default: 10s)",
        )


def schedule_options(options: argparse.Namespace) -> ScheduleOptions:
    """Return the parsed options."""

    def given(flags: Sequence[tuple[str, str, str, str]]) -> dict[str, Any]:
        values = {field: getattr(options, _dest(name)) for name, field, _, _ in flags}
        return {field: value for field, value in values.items() if value is not None}

    flags = ConfigurationFlags(given(_ELECTION), given(_CONNECTION), given(_DEBUGGING))
    # Only --cluster-file prints anything.
    ineffective = {"profiling", "contention-profiling", "kube-api-content-type", "output", *_WITHOUT_EFFECT}
    if options.config is not None:
        ineffective |= {name for name, *_ in (*_CONNECTION, *_DEBUGGING)}
    return ScheduleOptions(
        config=options.config,
        write_config_to=options.write_config_to,
        master=options.master,
        plugins=options.plugin or [],
        flags=flags,
        emulation=emulation_options(options),
        max_in_unschedulable_seconds=options.pod_max_in_unschedulable_pods_duration.seconds,
        decision_seconds=options.decision_timeout,
        watchdog_seconds=options.watchdog_timeout,
        serving=_serving(options),
        authentication=_authentication(options),
        authorization=_authorization(options),
        without_effect=given_among(options, [f"--{name}" for name in ineffective]),
        log_level=options.log_level,
        log_format=options.log_format,
    )


def _serving(options: argparse.Namespace) -> SecureServingOptions:
    return SecureServingOptions(
        bind_address=options.bind_address,
        port=options.secure_port,
        cert_dir=options.cert_dir,
        cert_file=options.tls_cert_file,
        key_file=options.tls_private_key_file,
        min_version=options.tls_min_version,
        cipher_suites=_listed(options.tls_cipher_suites, ()),
        shares_port=bool(options.permit_port_sharing),
    )


def _authentication(options: argparse.Namespace) -> AuthenticationOptions:
    return AuthenticationOptions(
        kubeconfig=_path(options.authentication_kubeconfig),
        skips_lookup=bool(options.authentication_skip_lookup),
        tolerates_lookup_failure=options.authentication_tolerate_lookup_failure is not False,
        cache_seconds=options.authentication_token_webhook_cache_ttl.seconds,
        client_ca_file=options.client_ca_file,
        request_header_ca_file=options.requestheader_client_ca_file,
        request_header_names=_listed(options.requestheader_allowed_names, ()),
        username_headers=_listed(options.requestheader_username_headers, ("x-remote-user",)),
        group_headers=_listed(options.requestheader_group_headers, ("x-remote-group",)),
        extra_prefixes=_listed(options.requestheader_extra_headers_prefix, ("x-remote-extra-",)),
        uid_headers=_listed(options.requestheader_uid_headers, ()),
    )


def _authorization(options: argparse.Namespace) -> AuthorizationOptions:
    return AuthorizationOptions(
        kubeconfig=_path(options.authorization_kubeconfig),
        always_allowed_paths=_listed(options.authorization_always_allow_paths, ALWAYS_ALLOWED_PATHS),
        allowed_cache_seconds=options.authorization_webhook_cache_authorized_ttl.seconds,
        denied_cache_seconds=options.authorization_webhook_cache_unauthorized_ttl.seconds,
    )


def _add(add: AddOption, name: str, kind: str, what: str) -> None:
    """Add an option whose value is None unless it is given."""
    if kind == "bool":
        add(f"--{name}", type=boolean, nargs="?", const=True, metavar="true|false", help=what)
    else:
        add(f"--{name}", type=_KINDS[kind], metavar=kind.upper(), help=what)


def _add_list(add: AddOption, name: str, default: Sequence[str], what: str) -> None:
    shown = f" (default: {','.join(default)})" if default else ""
    add(f"--{name}", type=_names, action="append", metavar="NAME,...", help=what + shown)


def _listed(given: Sequence[Sequence[str]] | None, default: Sequence[str]) -> tuple[str, ...]:
    return tuple(default) if given is None else tuple(name for names in given for name in names)


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _dest(name: str) -> str:
    return name.replace("-", "_")


def _one_certificate_only(text: str) -> NoReturn:
    del text
    raise argparse.ArgumentTypeError("not supported: the certificate of --tls-cert-file is served under every name")


def _text(text: str) -> str:
    return text


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


_KINDS: Final[Mapping[str, Callable[[str], Any]]] = {
    "text": _text,
    "duration": go_duration,
    "number": number,
    "whole": int32,
}

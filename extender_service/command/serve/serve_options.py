"""The options of `serve`: which cluster it follows, how it decides, where it listens, and its limits."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from extender_service.command.emulation import EmulationOptions, emulation_options
from extender_service.command.option_parser import AddOption
from extender_service.command.option_values import boolean, duration, existing_file, port
from extender_service.command.serve.limit_options import add_limit_options, call_limits, connection_limits
from extender_service.command.shared_options import add_config_options, add_log_options
from extender_service.command.unused_options import given_among
from extender_service.extender.overload.overload import CallLimits
from extender_service.serving.connection_limits import ConnectionLimits

# With --cluster-file, there is none.
ABOUT_API_SERVER: Final = frozenset({"--ask-again", "--kubeconfig", "--leader-lease", "--master", "--stale-limit"})


@dataclass(frozen=True)
class ServeOptions:
    """The options of `serve`, each checked on its own. `extender-service serve --help` describes them.

    `without_effect` are the names of options that were given, and change nothing beside the others.
    """

    emulation: EmulationOptions
    config: Path | None
    kubeconfig: Path | None
    master: str
    cluster_files: list[Path]
    plugins: list[str]
    leader_lease: tuple[str, str] | None
    ask_again: bool
    mode: Literal["beside", "replace"]
    preemption: Literal["kube-scheduler", "service"]
    stale_limit_seconds: float
    bind_address: str
    port: int
    tls_cert_file: Path | None
    tls_private_key_file: Path | None
    tls_min_version: Literal["VersionTLS12", "VersionTLS13"]
    client_ca_file: Path | None
    allowed_names: list[str]
    insecure_serving: bool
    healthz_bind_address: str | None
    healthz_port: int | None
    shutdown_delay_seconds: float | None
    shutdown_grace_seconds: float
    calls: CallLimits
    connections: ConnectionLimits
    watchdog_seconds: float
    without_effect: tuple[str, ...]
    log_level: int
    log_format: Literal["text", "json"]


def add_serve_options(add: AddOption) -> None:
    """Add the options. `add` is like argparse's add_argument."""
    add_config_options(add)
    _add_api_server_options(add)
    add(
        "--cluster-file",
        type=existing_file,
        action="append",
        metavar="FILE",
        help="read nodes and pods from this file of Kubernetes manifests, instead of an API server, and again when the "
        "file changes; repeatable",
    )
    add(
        "--mode",
        choices=("beside", "replace"),
        default="beside",
        help="beside: add to kube-scheduler's own plugins; replace: decide instead of them (default: beside)",
    )
    add(
        "--preemption",
        choices=("kube-scheduler", "service"),
        default="kube-scheduler",
        help="who preempts for pods that fit nowhere (--mode=replace). kube-scheduler: its own PostFilter plugins, "
        "which need its own filters; service: this service, which nominates the pod and evicts its victims; then "
        "kube-scheduler must have neither DefaultPreemption nor a preemptVerb (default: kube-scheduler)",
    )
    add(
        "--stale-limit",
        type=_stale_limit,
        default=30.0,
        metavar="DURATION",
        help="after this time without data from the API server, become not ready and answer calls with an error; at "
        "least 10s (default: 30s)",
    )
    add(
        "--leader-lease",
        type=_lease,
        metavar="NAMESPACE/NAME",
        help="answer only while a kube-scheduler on this host holds this lease; needed if several pairs of "
        "kube-scheduler and this service elect a leader (--mode=replace)",
    )
    add(
        "--ask-again",
        type=boolean,
        nargs="?",
        const=True,
        default=True,
        metavar="true|false",
        help="if a refused pod fits as soon as the watch has caught up, change an annotation of the pod, so that "
        "kube-scheduler asks again; needs the right to patch pods; --preemption=service needs it (default: true)",
    )
    add("--bind-address", default="127.0.0.1", metavar="ADDRESS", help="the address to listen on (default: 127.0.0.1)")
    add("--port", type=port, default=8888, metavar="PORT", help="the port to listen on, 0 for any (default: 8888)")
    _add_security_options(add)
    _add_shutdown_options(add)
    add_limit_options(add)
    add_log_options(add)


def _add_api_server_options(add: AddOption) -> None:
    add(
        "--kubeconfig",
        type=existing_file,
        metavar="FILE",
        help="how to reach the API server (default: the pod's service account, else KUBECONFIG, else ~/.kube/config)",
    )
    add("--master", default="", metavar="URL", help="the API server's URL; overrides the one in the kubeconfig")


def _add_security_options(add: AddOption) -> None:
    add(
        "--tls-cert-file",
        type=existing_file,
        metavar="FILE",
        help="serve HTTPS with this certificate (PEM, followed by its issuers); read again when the file changes",
    )
    add(
        "--tls-private-key-file",
        type=existing_file,
        metavar="FILE",
        help="the key of --tls-cert-file (PEM, not encrypted)",
    )
    add(
        "--tls-min-version",
        choices=("VersionTLS12", "VersionTLS13"),
        default="VersionTLS12",
        help="(default: VersionTLS12)",
    )
    add(
        "--client-ca-file",
        type=existing_file,
        metavar="FILE",
        help="require a client certificate of these authorities (PEM, mutual TLS); read again when the file changes",
    )
    add(
        "--allowed-names",
        type=_names,
        default=[],
        metavar="NAME,...",
        help="with --client-ca-file, accept only client certificates with one of these names as CN or SAN "
        "(default: any name)",
    )
    add(
        "--insecure-serving",
        type=boolean,
        nargs="?",
        const=True,
        default=False,
        metavar="true|false",
        help="allow listening beyond loopback without --client-ca-file: any client that reaches the address can bind "
        "pods",
    )
    add(
        "--healthz-port",
        type=port,
        metavar="PORT",
        help="answer /livez, /readyz and /metrics only on this port, over HTTP without authentication; 0 for any port "
        "(default: 8889 with --client-ca-file or --healthz-bind-address, otherwise --port)",
    )
    add("--healthz-bind-address", metavar="ADDRESS", help="the address of --healthz-port (default: --bind-address)")


def _add_shutdown_options(add: AddOption) -> None:
    add(
        "--shutdown-delay-duration",
        type=duration,
        metavar="DURATION",
        help="after SIGTERM, be not ready but answer calls for this time, until clients use other replicas; at most "
        "half of --shutdown-grace-period (default: 5s or that half if it is less, 0s on loopback)",
    )
    add(
        "--shutdown-grace-period",
        type=duration,
        default=25.0,
        metavar="DURATION",
        help="end the process within this time after SIGTERM, the delay included; calls and bindings that have not "
        "finished after four fifths of it are undone (default: 25s)",
    )


def serve_options(options: argparse.Namespace) -> ServeOptions:
    """Return the parsed options."""
    return ServeOptions(
        emulation=emulation_options(options),
        config=options.config,
        kubeconfig=options.kubeconfig,
        master=options.master,
        cluster_files=options.cluster_file or [],
        plugins=options.plugin or [],
        leader_lease=options.leader_lease,
        ask_again=options.ask_again,
        mode=options.mode,
        preemption=options.preemption,
        stale_limit_seconds=options.stale_limit,
        bind_address=options.bind_address,
        port=options.port,
        tls_cert_file=options.tls_cert_file,
        tls_private_key_file=options.tls_private_key_file,
        tls_min_version=options.tls_min_version,
        client_ca_file=options.client_ca_file,
        allowed_names=options.allowed_names,
        insecure_serving=options.insecure_serving,
        healthz_bind_address=options.healthz_bind_address,
        healthz_port=options.healthz_port,
        shutdown_delay_seconds=options.shutdown_delay_duration,
        shutdown_grace_seconds=options.shutdown_grace_period,
        calls=call_limits(options),
        connections=connection_limits(options),
        watchdog_seconds=options.watchdog_timeout,
        without_effect=given_among(options, ABOUT_API_SERVER) if options.cluster_file else (),
        log_level=options.log_level,
        log_format=options.log_format,
    )


def _stale_limit(text: str) -> float:
    seconds = duration(text)
    # Detecting a dead connection and opening a new one takes up to 10 s.
    if seconds < 10:
        raise argparse.ArgumentTypeError(f"{text!r} is less than 10s")
    return seconds


def _lease(text: str) -> tuple[str, str]:
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAMESPACE/NAME")
    return namespace, name


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty name")
    return names

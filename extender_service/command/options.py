"""The parsed options of `extender-service serve`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from extender_service.command.emulation import EmulationOptions
from extender_service.extender.overload.overload import CallLimits
from extender_service.serving.connection_limits import ConnectionLimits


@dataclass(frozen=True)
class ServeOptions:
    """The options of `serve`, each checked on its own. `extender-service serve --help` describes them."""

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
    log_level: int
    log_format: Literal["text", "json"]


@dataclass(frozen=True)
class PlaceOptions:
    """The options of `schedule --cluster-file`."""

    cluster_files: list[Path]
    emulation: EmulationOptions
    config: Path | None
    plugins: list[str]
    output: Literal["text", "json"]
    log_level: int
    log_format: Literal["text", "json"]

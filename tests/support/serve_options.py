"""Options of `serve` for tests."""

import logging
from pathlib import Path
from typing import Any

from extender_service.command.emulation import EmulationOptions
from extender_service.command.serve.serve_options import ServeOptions
from extender_service.extender.overload.overload import CallLimits
from extender_service.serving.connection_limits import ConnectionLimits


def serve_options(cluster_files: list[Path], **changes: Any) -> ServeOptions:
    """Those of a service on a free port of this machine, and what is changed about them."""
    options = {
        "emulation": EmulationOptions(),
        "config": None,
        "kubeconfig": None,
        "master": "",
        "cluster_files": cluster_files,
        "plugins": [],
        "leader_lease": None,
        "ask_again": True,
        "preemption": "kube-scheduler",
        "mode": "replace",
        "stale_limit_seconds": 30,
        "bind_address": "127.0.0.1",
        "port": 0,
        "tls_cert_file": None,
        "tls_private_key_file": None,
        "tls_min_version": "VersionTLS12",
        "client_ca_file": None,
        "allowed_names": [],
        "insecure_serving": False,
        "healthz_bind_address": None,
        "healthz_port": None,
        "shutdown_delay_seconds": None,
        "shutdown_grace_seconds": 25.0,
        "calls": CallLimits(),
        "connections": ConnectionLimits(),
        "watchdog_seconds": 30.0,
        "without_effect": (),
        "log_level": logging.INFO,
        "log_format": "text",
    }
    return ServeOptions(**{**options, **changes})


def mutual_tls(folder: Path) -> dict[str, Any]:
    """The options for the files of a folder."""
    return {
        "tls_cert_file": folder / "tls.crt",
        "tls_private_key_file": folder / "tls.key",
        "client_ca_file": folder / "ca.crt",
    }

"""The whole scheduler as its users run it: `extender-service schedule`, in a process of its own."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from extender_service.framework.interface import Plugin
from tests.e2e.support.objects import Object
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.processes import Process
from tests.e2e.support.programs.service import PROGRAM

# Backoff in seconds: a pod that failed is tried again soon.
SOON = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}


@contextmanager
def scheduling(
    control_plane: ControlPlane,
    configuration: Object | None = None,
    *,
    name: str = "schedule",
    plugins: Sequence[type[Plugin]] = (),
    options: Sequence[str] = (),
) -> Iterator[Process]:
    """Run the scheduler as the user system:kube-scheduler for as long as the context lasts."""
    process = start(control_plane, configuration, name=name, plugins=plugins, options=options)
    try:
        yield process
    finally:
        process.kill()


def start(
    control_plane: ControlPlane,
    configuration: Object | None = None,
    *,
    name: str = "schedule",
    kubeconfig: Path | None = None,
    plugins: Sequence[type[Plugin]] = (),
    options: Sequence[str] = (),
    serves: bool = False,
) -> Process:
    """Start the scheduler. Its log, and its configuration, are in the control plane's directory under `name`.

    Unless the configuration or the options say otherwise, it leads without an election, serves nothing unless it
    `serves`, and its requests are not limited. It acts as system:kube-scheduler unless a kubeconfig is given.
    """
    complete = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **SOON,
        "leaderElection": {"leaderElect": False},
        **(configuration or {}),
    }
    user = kubeconfig or control_plane.user_kubeconfig("system:kube-scheduler")
    unlimited = {"qps": 1000, "burst": 1000, "kubeconfig": str(user)}
    complete["clientConnection"] = {**unlimited, **complete.get("clientConnection", {})}
    file = control_plane.directory / f"{name}.yaml"
    file.write_text(yaml.safe_dump(complete))
    command: list[str | Path] = [
        PROGRAM,
        "schedule",
        f"--config={file}",
        *([] if serves else ["--secure-port=0"]),
        "--log-format=json",
        *(f"--plugin={plugin.__module__}:{plugin.__name__}" for plugin in plugins),
        *options,
    ]
    return Process(command, control_plane.directory / f"{name}.log")

"""The kustomize bases of deploy/, and what is in them run on this machine: commands, files and probes."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import httpx
import yaml

from tests.e2e.support.objects import Object
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.processes import Process
from tests.e2e.support.programs.service import PROGRAM
from tests.e2e.support.waiting import wait_until
from tests.support.servers.free_ports import free_port

DEPLOY = Path(__file__).parents[4] / "deploy"
# util-linux's; who is not root becomes root of a namespace of users.
_UNSHARE = ("unshare", "--uts", *(() if os.geteuid() == 0 else ("--map-root-user",)))
_RIGHTS = (
    "Namespace",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "FlowSchema",
)


class Base:
    """A kustomize base, built by kubectl. `objects` are its manifests, `pod_template` is what its pods are made of."""

    def __init__(self, control_plane: ControlPlane, name: str) -> None:
        self._control_plane = control_plane
        self.text = control_plane.kubectl("kustomize", DEPLOY / name)
        self.objects: list[Object] = [*yaml.safe_load_all(self.text)]
        workload = next(found for found in self.objects if found["kind"] in ("Deployment", "DaemonSet"))
        self.pod_template: Object = workload["spec"]["template"]

    def of_kind(self, kind: str) -> Object:
        """The first object of a kind."""
        return next(found for found in self.objects if found["kind"] == kind)

    def container(self, name: str) -> Object:
        """One of the containers of its pods."""
        spec = self.pod_template["spec"]
        containers: Sequence[Object] = [*spec.get("initContainers", ()), *spec["containers"]]
        return next(found for found in containers if found["name"] == name)

    def grant_rights(self) -> Path:
        """Create the service account with its rights and priority; returns a kubeconfig that shows its token."""
        wanted = [found for found in self.objects if found["kind"] in _RIGHTS]
        self._control_plane.kubectl("apply", "--validate=strict", "-f", "-", stdin=yaml.safe_dump_all(wanted))
        account = self.of_kind("ServiceAccount")["metadata"]
        return self._control_plane.service_account_kubeconfig(account["namespace"], account["name"])

    def write_files(self, directory: Path) -> None:
        """Write the files that its containers have mounted."""
        directory.mkdir()
        for name, text in self.of_kind("ConfigMap")["data"].items():
            (directory / name).write_text(text)

    def command(self, container: str, files: Path) -> list[str]:
        """A container's own command; it finds its configuration in `files`, and a volume NAME in `files`/NAME."""
        found = self.container(container)
        words = [*found.get("command", ()), *found.get("args", ())]
        for mount in found["volumeMounts"]:
            here = files if mount["name"] == "configuration" else files / mount["name"]
            words = [word.replace(mount["mountPath"], str(here)) for word in words]
        return words


def edit(file: Path, *, replace: str, by: str) -> None:
    """Replace a text that must be in a file."""
    text = file.read_text()
    assert replace in text, f"{file.name} has no {replace}"
    file.write_text(text.replace(replace, by))


def on_host(name: str) -> list[str]:
    """The beginning of a command that is to find itself on a host of this name, as in a pod of it.

    kube-scheduler holds its lease by that name, and the service beside it looks for it there. Empty, which stands for
    this host, where the kernel or the user may not have another name.
    """
    return [*_UNSHARE, "sh", "-c", 'hostname "$0" && exec "$@"', name] if name and may_name_hosts() else []


@cache
def may_name_hosts() -> bool:
    """Whether a process can have a host name of its own."""
    if shutil.which(_UNSHARE[0]) is None:
        return False
    return subprocess.run([*_UNSHARE, "hostname", "other"], capture_output=True).returncode == 0


@contextmanager
def service_container(
    base: Base,
    files: Path,
    kubeconfig: Path,
    port: int,
    log: Path,
    *,
    address: str = "127.0.0.1",
    probes_port: int | None = None,
    host: str = "",
    options: Sequence[str] = (),
) -> Iterator[Process]:
    """The container extender-service, with all its probes passing; `address` and `host` are those of its pod."""
    here = [f"--kubeconfig={kubeconfig}", f"--port={port}", *options]
    if probes_port is not None:
        here.append(f"--healthz-port={probes_port}")
    words = [word.replace("$(POD_IP)", address) for word in base.command("extender-service", files)]
    process = Process([*on_host(host), PROGRAM, *words, *here], log)
    try:
        wait_for_probes(base.container("extender-service"), process, probes_port or port)
        yield process
    finally:
        process.kill()


@contextmanager
def scheduler_process(
    command: Sequence[str | Path], kubeconfig: Path, log: Path, host: str = ""
) -> Iterator[tuple[Process, int]]:
    """A kube-scheduler, and the port where it answers for its health, by the rights of `kubeconfig`."""
    port = free_port()
    here = [f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}"]
    process = Process([*on_host(host), *command, *here, f"--secure-port={port}"], log)
    try:
        yield process, port
    finally:
        process.kill()


def wait_for_probes(container: Object, process: Process, port: int, liveness_port: int | None = None) -> None:
    """Wait until the kubelet would call a container ready, and check that its liveness probe passes as well."""

    def is_ready() -> bool:
        process.require_running()
        return passes(container["startupProbe"], port) and passes(container["readinessProbe"], port)

    wait_until(is_ready, f"{container['name']} to be ready")
    for kind, asked in (("readinessProbe", port), ("livenessProbe", liveness_port or port)):
        assert passes(container[kind], asked), kind
        assert not passes(container[kind], free_port()), f"{kind} passes where nobody answers"


def passes(probe: Object, port: int) -> bool:
    """Whether a probe finds a program well, which listens on another port here than in its pod."""
    asked = probe["httpGet"]
    url = f"{asked.get('scheme', 'HTTP').lower()}://127.0.0.1:{port}{asked['path']}"
    try:
        # Like the kubelet, don't ask who signed the certificate.
        return httpx.get(url, verify=False, trust_env=False, timeout=probe["timeoutSeconds"]).is_success
    except httpx.TransportError:
        return False

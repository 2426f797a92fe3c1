"""A real Kubernetes control plane for tests, of the oldest or of the newest release.

etcd and kube-apiserver run; kube-schedulers run as a test asks for them.
There is no kube-controller-manager and no kubelet, so a test is the only one that changes the cluster:

- nobody taints or evicts (TaintNodesByCondition is off as well: a new node is schedulable at once);
- bound pods stay Pending, and go at once when deleted if their grace period is 0 (`objects.pod` sees to that);
- no "default" service account is made in a namespace, and no pod needs one (ServiceAccount admission is off);
- a deleted namespace stays Terminating, and owners' dependants are not collected.

The namespaces default and kube-system, the system-* priority classes and Kubernetes' own RBAC roles are there.
"""

import base64
import itertools
import os
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import trustme
import yaml

from extender_service.config.release import NEWEST_MINOR, OLDEST_MINOR
from tests.e2e.support import kubeconfigs
from tests.e2e.support.api import API
from tests.e2e.support.programs.processes import Process
from tests.e2e.support.waiting import wait_until

_TESTS = Path(__file__).parents[3]
# The programs by minor version: one source, built with the modules of either release.
PROGRAMS = {
    OLDEST_MINOR: _TESTS / "e2e" / "controlplane",
    NEWEST_MINOR: _TESTS / "kubernetes_1_37" / "controlplane_1_37",
}
_ETCD_LISTENS = "serving client traffic"
_ETCD = "http://etcd/v3"


class ControlPlane:
    """A control plane on a free port of 127.0.0.1, with its files in `directory` (short: it holds Unix sockets).

    - `url`: the API server's, https. It stays the same when the API server is started anew.
    - `kubeconfig`: an administrator's, by token.
    - `token`: that administrator's.
    - `api`: a client for many objects at once, as that administrator.
    - `authority`: who signs the certificates of servers and users.
    - `etcd`, `api_server`: their processes, with `log`, `kill()` and `stop()`. Stopping an API server that has watchers
      takes it about 10 s, in which it drains them.

    The API server gets `api_server_options` besides its usual ones, and etcd `etcd_options`. If it `starts_compacted`,
    resource version 1 is too old for lists and watches, as in a cluster that has run for some minutes. It is a context
    manager, which starts and stops it. Logs stay in `directory`.
    """

    def __init__(
        self,
        binary: Path,
        directory: Path,
        *,
        api_server_options: Sequence[str] = (),
        etcd_options: Sequence[str] = (),
        starts_compacted: bool = False,
    ) -> None:
        self.directory = directory
        self._binary = binary
        self._more_api_server_options = api_server_options
        self._more_etcd_options = etcd_options
        self._starts_compacted = starts_compacted
        self._etcd_data = directory / "etcd"
        self.authority = trustme.CA()
        self._processes: list[Process] = []
        self._scheduler_numbers = itertools.count(1)

        # Held for as long as this lives, so that nobody else gets the port while the API server is down. The API server
        # shares it by --permit-port-sharing; a socket that doesn't listen gets no connections.
        self._port_reservations: list[socket.socket] = []
        self._port = self._reserve_port()

        self.token = token = secrets.token_urlsafe()
        self.url = f"https://127.0.0.1:{self._port}"
        self.kubeconfig = self._write_kubeconfig("admin", kubeconfigs.token_user(token))
        self.api = API(self.url, self.authority.cert_pem.bytes().decode(), token)
        self._write_credentials(token)

    def __enter__(self) -> Self:
        try:
            self._start_etcd()
            if self._starts_compacted:
                self._compact_etcd()
            self.start_api_server()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for process in reversed(self._processes):
            process.kill()
        self.api.__exit__(kind, error, tb)
        for reservation in self._port_reservations:
            reservation.close()
        shutil.rmtree(self._etcd_data, ignore_errors=True)

    def start_api_server(self) -> None:
        """Start it, or start it again after `api_server.stop()` or `.kill()`, and wait until it is ready."""
        self.api_server = self._start("kube-apiserver", "kube-apiserver", *self._api_server_options(self._port))
        self._wait_ready(self.api_server, self.api)

    def start_another_api_server(self) -> str:
        """Start one more on the same etcd, and wait until it is ready; returns its URL. It stops with the others."""
        port = self._reserve_port()
        process = self._start(f"kube-apiserver-{port}", "kube-apiserver", *self._api_server_options(port))
        url = f"https://127.0.0.1:{port}"
        with API(url, self.authority.cert_pem.bytes().decode(), self.token) as api:
            self._wait_ready(process, api)
        return url

    def save_etcd(self, to: Path) -> None:
        """Copy etcd's data, in the state in which a crash would leave them now."""
        os.kill(self.etcd.pid, signal.SIGSTOP)
        try:
            shutil.copytree(self._etcd_data, to)
        finally:
            os.kill(self.etcd.pid, signal.SIGCONT)

    def restore_etcd(self, saved: Path) -> None:
        """Kill the API server and etcd, and start both again on data that were saved: resource versions go back."""
        self.api_server.kill()
        self.etcd.kill()
        shutil.rmtree(self._etcd_data)
        shutil.copytree(saved, self._etcd_data)
        self._start_etcd()
        self.start_api_server()

    def lift_etcd_quota(self) -> None:
        """Start etcd again without its own options, such as a quota, and end its alarm that there is no space."""
        self._more_etcd_options = ()
        self.etcd.kill()
        starts = self.etcd.log.read_text().count(_ETCD_LISTENS)
        self._start_etcd()
        wait_until(lambda: self.etcd.log.read_text().count(_ETCD_LISTENS) > starts, "etcd to listen")
        with self._etcd_client() as etcd:

            def alarm(action: Mapping[str, str]) -> list[dict[str, str]]:
                answer = etcd.post(f"{_ETCD}/maintenance/alarm", json=action).raise_for_status().json()
                return list(answer.get("alarms", []))

            for raised in alarm({"action": "GET"}):
                alarm({"action": "DEACTIVATE", **raised})

    def start_scheduler(
        self,
        configuration: Mapping[str, Any] | str,
        kubeconfig: Path | None = None,
        *,
        verbosity: int = 4,
        options: Sequence[str] = (),
    ) -> Process:
        """Start a stock kube-scheduler on a KubeSchedulerConfiguration v1, given as a dict or as YAML.

        What the configuration leaves out is set for tests: no leader election, and no limit to its requests that a test
        would wait for. It acts as the user system:kube-scheduler, unless a kubeconfig is given, and serves no metrics
        unless its `options` say otherwise. It is stopped with the control plane, if the test hasn't done so.
        """
        wanted = yaml.safe_load(configuration) if isinstance(configuration, str) else dict(configuration)
        connection = {
            "kubeconfig": str(kubeconfig or self.user_kubeconfig("system:kube-scheduler")),
            "qps": 1000,
            "burst": 1000,
        }
        complete = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            **wanted,
            "leaderElection": {"leaderElect": False, **wanted.get("leaderElection", {})},
            "clientConnection": {**connection, **wanted.get("clientConnection", {})},
        }
        name = f"kube-scheduler-{next(self._scheduler_numbers)}"
        file = self.directory / f"{name}.yaml"
        file.write_text(yaml.safe_dump(complete))
        return self._start(name, "kube-scheduler", f"--config={file}", "--secure-port=0", f"--v={verbosity}", *options)

    def kubectl(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """Run kubectl as administrator and return what it prints. Raises RuntimeError with its error text."""
        options = [f"--kubeconfig={self.kubeconfig}", f"--cache-dir={self.directory / 'kubectl-cache'}"]
        command = [self._binary, "kubectl", *options, *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise RuntimeError(f"kubectl {' '.join(map(str, arguments))}: {done.stderr}")
        return done.stdout

    def user_kubeconfig(self, user: str, group: str | None = None) -> Path:
        """A kubeconfig for any user name, by client certificate. The user has the rights that RBAC gives, no others."""
        return self._write_kubeconfig(user, kubeconfigs.certificate_user(self.authority, user, group))

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig for an existing ServiceAccount, by a token of an hour from the TokenRequest API."""
        token_request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        account = f"{self.api.path('ServiceAccount', namespace)}/{name}"
        token = self.api.request("POST", f"{account}/token", token_request)["status"]["token"]
        return self._write_kubeconfig(f"{namespace}:{name}", kubeconfigs.token_user(token))

    def _reserve_port(self) -> int:
        reservation = socket.socket()
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reservation.bind(("127.0.0.1", 0))
        self._port_reservations.append(reservation)
        port: int = reservation.getsockname()[1]
        return port

    def _wait_ready(self, process: Process, api: API) -> None:
        def is_ready() -> bool:
            self.etcd.require_running()
            process.require_running()
            return api.is_ready()

        wait_until(is_ready, "the API server's /readyz", timeout_seconds=60)

    def _start(self, name: str, program: str, *options: str) -> Process:
        process = Process([self._binary, program, *options], self.directory / f"{name}.log")
        self._processes.append(process)
        return process

    def _start_etcd(self) -> None:
        self.etcd = self._start(
            "etcd",
            "etcd",
            f"--data-dir={self._etcd_data}",
            "--unsafe-no-fsync",
            f"--listen-client-urls=unix://{self.directory}/etcd.sock",
            f"--listen-peer-urls=unix://{self.directory}/etcd-peer.sock",
            "--advertise-client-urls=http://localhost:2379",  # required, and not read by anyone in a cluster of one
            "--heartbeat-interval=10",  # milliseconds: it elects itself without the usual second's wait
            "--election-timeout=100",
            *self._more_etcd_options,
        )

    def _compact_etcd(self) -> None:
        """Write a key, and let etcd forget all versions before that."""
        wait_until(lambda: _ETCD_LISTENS in self.etcd.log.read_text(), "etcd to listen")
        text = base64.b64encode(b"first").decode()
        with self._etcd_client() as etcd:
            written = etcd.post(f"{_ETCD}/kv/put", json={"key": text, "value": text}).raise_for_status().json()
            revision = written["header"]["revision"]
            etcd.post(f"{_ETCD}/kv/compaction", json={"revision": revision}).raise_for_status()

    def _etcd_client(self) -> httpx.Client:
        return httpx.Client(transport=httpx.HTTPTransport(uds=f"{self.directory}/etcd.sock"), trust_env=False)

    def _api_server_options(self, port: int) -> list[str]:
        files = self.directory
        return [
            f"--etcd-servers=unix://{files}/etcd.sock",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            "--permit-port-sharing",
            f"--cert-dir={files}",
            f"--tls-cert-file={files}/apiserver.crt",
            f"--tls-private-key-file={files}/apiserver.key",
            f"--client-ca-file={files}/ca.crt",
            f"--token-auth-file={files}/tokens.csv",
            "--anonymous-auth=false",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={files}/service-account.key",
            f"--service-account-signing-key-file={files}/service-account.key",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",  # the Service "kubernetes" needs no endpoints, and refuses 127.0.0.1
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            *self._more_api_server_options,
        ]

    def _write_credentials(self, token: str) -> None:
        serving = self.authority.issue_cert("127.0.0.1", "localhost")
        serving.private_key_pem.write_to_path(self.directory / "apiserver.key")
        for number, part in enumerate(serving.cert_chain_pems):
            part.write_to_path(self.directory / "apiserver.crt", append=number > 0)
        self.authority.cert_pem.write_to_path(self.directory / "ca.crt")
        # Any key will do to sign service accounts' tokens; this one comes from a certificate that nobody shows.
        self.authority.issue_cert("service-accounts.test").private_key_pem.write_to_path(
            self.directory / "service-account.key"
        )
        (self.directory / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")

    def _write_kubeconfig(self, user: str, credentials: Mapping[str, str]) -> Path:
        path = self.directory / f"{user.replace(':', '-')}.kubeconfig"
        return kubeconfigs.write(path, self.url, self.authority, credentials)

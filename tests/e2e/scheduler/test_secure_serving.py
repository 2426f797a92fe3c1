"""What the scheduler serves, and to whom: the API server knows who calls and what the caller may do."""

import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import httpx
import pytest
import yaml

from tests.e2e.support.objects import Object, node, pod
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.processes import Process
from tests.e2e.support.programs.whole_scheduler import start
from tests.e2e.support.waiting import wait_until
from tests.support.servers.free_ports import free_port

NO_HEADERS: Mapping[str, str] = {}
RBAC = "rbac.authorization.k8s.io/v1"


@dataclass
class Serving:
    """A scheduler that serves, and its callers."""

    control_plane: ControlPlane
    process: Process
    url: str

    def get(
        self, path: str, token: str = "", certificate: Path | None = None, headers: Mapping[str, str] = NO_HEADERS
    ) -> httpx.Response:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if certificate is not None:
            context.load_cert_chain(certificate)
        sent = {**headers, **({"Authorization": f"Bearer {token}"} if token else {})}
        with httpx.Client(verify=context, trust_env=False) as client:
            return client.get(self.url + path, headers=sent)

    def metric(self, series: str) -> float:
        """The value of a series; 0 if it is not there."""
        lines = self.get("/metrics", token=self.reader_token).text.splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(series + " ")), 0.0)

    def leads(self) -> bool:
        """Whether the scheduler knows that it leads."""
        return self.metric('leader_election_master_status{name="kube-scheduler"}') == 1

    @cached_property
    def reader_token(self) -> str:
        """The token of an account that may read metrics and the configuration."""
        return self.token("reader")

    def token(self, account: str) -> str:
        file = self.control_plane.service_account_kubeconfig("default", account)
        return str(yaml.safe_load(file.read_text())["users"][0]["user"]["token"])

    def certificate(self, user: str, group: str | None = None) -> Path:
        """A client certificate with its key, of the authority that the API server publishes."""
        issued = self.control_plane.authority.issue_cert(user, common_name=user, organization_name=group)
        file = self.control_plane.directory / f"{user}.pem"
        file.write_bytes(issued.private_key_and_cert_chain_pem.bytes())
        return file


@pytest.fixture(scope="module")
def serving(shared_control_plane: ControlPlane) -> Iterator[Serving]:
    api = shared_control_plane.api
    for name in ("reader", "stranger"):
        api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}})
    rules = [{"nonResourceURLs": ["/metrics", "/configz", "/metrics/resources", "/metrics/slis"], "verbs": ["get"]}]
    subjects: list[Object] = [
        {"kind": "ServiceAccount", "name": "reader", "namespace": "default"},
        {"kind": "User", "name": "cert-reader", "apiGroup": "rbac.authorization.k8s.io"},
    ]
    role = {"kind": "ClusterRole", "name": "metrics", "apiGroup": "rbac.authorization.k8s.io"}
    shared_control_plane.kubectl(
        "create",
        "-f",
        "-",
        stdin=yaml.safe_dump_all(
            [
                {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "metrics"}, "rules": rules},
                {
                    "apiVersion": RBAC,
                    "kind": "ClusterRoleBinding",
                    "metadata": {"name": "metrics"},
                    "roleRef": role,
                    "subjects": subjects,
                },
            ]
        ),
    )
    user = shared_control_plane.user_kubeconfig("system:kube-scheduler")
    port = free_port()
    process = start(
        shared_control_plane,
        {"leaderElection": {"leaderElect": True}},
        name="serving",
        options=[
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--authentication-kubeconfig={user}",
            f"--authorization-kubeconfig={user}",
        ],
        serves=True,
    )

    try:
        wait_until(lambda: '"msg": "serving"' in process.log.read_text(), "the scheduler to serve")
        made = Serving(shared_control_plane, process, f"https://127.0.0.1:{port}")
        wait_until(made.leads, "the scheduler to lead")
        yield made
    finally:
        process.kill()


def test_health_is_open(serving: Serving) -> None:
    wait_until(lambda: serving.get("/readyz").is_success, "the scheduler to be ready")
    report = serving.get("/readyz?verbose")
    for check in ("ping", "leaderElection", "shutdown", "sched-handler-sync"):
        assert f"[+]{check} ok" in report.text
    assert "watch-" not in report.text  # how old the caches are does not count, as in kube-scheduler
    assert "[+]leaderElection ok" in serving.get("/healthz?verbose").text
    assert serving.get("/livez").text == "ok"


def test_strangers_are_refused_as_the_api_server_says(serving: Serving) -> None:
    anonymous = serving.get("/metrics")
    assert anonymous.status_code == 403
    assert anonymous.json()["message"] == 'forbidden: User "system:anonymous" cannot get path "/metrics"'
    assert serving.get("/metrics", token="invalid").status_code == 401
    stranger = serving.get("/metrics", token=serving.token("stranger"))
    assert stranger.status_code == 403
    assert 'User "system:serviceaccount:default:stranger" cannot get path "/metrics"' in stranger.json()["message"]
    # Headers of a proxy count only with the proxy's certificate.
    named = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
    assert serving.get("/metrics", headers=named).status_code == 403


def test_who_may_reads_metrics_and_configuration(serving: Serving) -> None:
    token = serving.reader_token
    metrics = serving.get("/metrics", token=token).text
    assert 'scheduler_pending_pods{queue="active"} 0.0' in metrics
    assert 'leader_election_master_status{name="kube-scheduler"} 1.0' in metrics
    for code, method in ((200, "GET"), (201, "POST")):  # watches and lists; reviews of callers
        series = rf'^rest_client_requests_total{{code="{code}",host="[^"]+",method="{method}"}} '
        assert re.search(series, metrics, re.MULTILINE)
    config = serving.get("/configz", token=token).json()["componentconfig"]
    assert config["leaderElection"]["leaseDuration"] == "15s"
    assert serving.get("/other", token=token).status_code == 403


def test_metrics_show_what_happened_to_pods(serving: Serving) -> None:
    token, api, value = serving.reader_token, serving.control_plane.api, serving.metric

    def attempts(result: str) -> float:
        return value(f'scheduler_schedule_attempts_total{{profile="default-scheduler",result="{result}"}}')

    api.create(node("a", cpu="1"))
    # Nodes and pods come over different watches: before it knows the node, the scheduler would refuse both pods.
    wait_until(lambda: value('scheduler_scheduler_cache_size{type="nodes"}') == 1, "the scheduler to see the node")
    api.create(pod("fits", requests={"cpu": "1"}), pod("big", requests={"cpu": "100"}))
    wait_until(lambda: attempts("scheduled") == 1, "a pod to be bound")
    wait_until(lambda: attempts("unschedulable"), "a pod to be refused")
    assert value('scheduler_pending_pods{queue="unschedulable"}') == 1
    assert value('scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"}') == 1
    assert value('scheduler_queue_incoming_pods_total{event="PodAdd",queue="active"}') == 2
    assert value("scheduler_preemption_attempts_total") >= 1
    assert value('scheduler_pod_scheduling_sli_duration_seconds_count{attempts="1"}') == 1
    assert value('scheduler_event_handling_duration_seconds_count{event="NodeAdd"}') == 1
    fit = 'extension_point="Filter",plugin="NodeResourcesFit",profile="default-scheduler"'
    assert value(f"scheduler_plugin_evaluation_total{{{fit}}}") >= 2
    resources = serving.get("/metrics/resources", token=token).text
    labels = 'scheduler="default-scheduler",priority="0",resource="cpu",unit="cores"'
    assert f'kube_pod_resource_request{{namespace="default",pod="fits",node="a",{labels}}} 1.0' in resources
    assert f'kube_pod_resource_request{{namespace="default",pod="big",node="",{labels}}} 100.0' in resources
    assert serving.get("/livez").is_success
    slis = serving.get("/metrics/slis", token=token).text
    assert 'kubernetes_healthcheck{name="ping",type="livez"} 1.0' in slis


def test_a_client_certificate_names_its_user(serving: Serving) -> None:
    assert serving.get("/metrics", certificate=serving.certificate("cert-reader")).is_success
    refused = serving.get("/metrics", certificate=serving.certificate("cert-stranger"))
    assert refused.status_code == 403
    assert 'User "cert-stranger"' in refused.json()["message"]
    masters = serving.certificate("operator", "system:masters")
    assert serving.get("/metrics", certificate=masters).is_success
    assert serving.get("/other", certificate=masters).status_code == 404


def test_a_leader_whose_lease_is_taken_ends_also_while_it_serves(serving: Serving) -> None:
    """Comes last: it ends the scheduler."""
    api = serving.control_plane.api
    lease = api.get("Lease", "kube-scheduler", namespace="kube-system", api_version="coordination.k8s.io/v1")
    api.patch(lease, patch={"spec": {"holderIdentity": "somebody_else"}})
    wait_until(lambda: serving.process.exit_code is not None, "the scheduler to end", 10)
    assert serving.process.exit_code == 1
    assert "Traceback" not in serving.process.log.read_text()

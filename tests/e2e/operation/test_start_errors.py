"""What cannot work is said in one line, with what to do: at once where nothing else helps, else by not being ready."""

import os
import socket
import subprocess
from pathlib import Path

import httpx
import pytest
import yaml

from tests.e2e.support.objects import Object
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.service import PROGRAM, Service
from tests.e2e.support.waiting import wait_until


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mode=sideways"], "argument --mode: invalid choice: 'sideways' (choose from"),
        (["--port=70000"], "argument --port: '70000' is not a port: give a number from 0 to 65535"),
        (["--log-level=loud"], "'loud' is not a log level: use debug, info, warning, error"),
        (["--config=missing.yaml"], "argument --config: there is no file missing.yaml"),
        (["--cluster-file=."], "argument --cluster-file: . is a folder, not a file"),
        (["--colour=red"], "there is no option --colour"),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_a_wrong_option_is_named(arguments: list[str], message: str) -> None:
    status, line = failed_start(*arguments)

    assert status == 2
    assert message in line
    assert line.endswith("--help)")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("clusters: [", "not valid YAML (line 2, column 1)"),
        ("users: &all [*all]", "line 1: an anchor's value contains itself"),
        ("current-context: prod", 'current-context "prod" is not defined; contexts defined: none'),
    ],
    ids=["no YAML", "recursive alias", "no context"],
)
def test_a_broken_kubeconfig_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "broken.kubeconfig"
    file.write_text(text)

    assert failed_start(f"--kubeconfig={file}") == (1, f"extender-service: kubeconfig {file}: {message}")


def test_a_token_that_cannot_be_sent_is_named(shared_control_plane: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = changed(shared_control_plane.kubeconfig, tmp_path, {"user": {"token": "SECRET\nSECRET"}})

    place = f'kubeconfig {kubeconfig}: user "test"'
    problem = f"extender-service: {place}: token must be text in one line, but has a line break"
    assert failed_start(f"--kubeconfig={kubeconfig}") == (1, problem)


def test_without_any_credentials_it_says_where_it_looked(tmp_path: Path) -> None:
    status, line = failed_start(HOME=str(tmp_path), KUBECONFIG="")

    assert status == 1
    assert f"{tmp_path}/.kube/config does not exist" in line
    assert line.endswith("give --kubeconfig FILE")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: [", "line 2, column 1: did not find expected"),
        ("apiVersion: v1\nkind: Node\nmetadata: {nam: a}", "document 1: metadata.name must be given"),
        (
            "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {allocatable: {cpu: four}}",
            "document 1: Node a: quantity 'four' must be a number with an optional suffix, such as 500m",
        ),
    ],
    ids=["no YAML", "no name", "no quantity"],
)
def test_a_broken_cluster_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(f"{text}\n")

    status, line = failed_start(f"--cluster-file={file}")

    assert status == 1
    assert line.startswith(f"extender-service: {file}: {message}")


def test_a_broken_configuration_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerNam: x}]\n"
    )

    problem = "profiles[0].schedulerNam: unknown field: did you mean schedulerName?"
    assert failed_start(f"--config={file}") == (1, f"extender-service: --config: {file}: {problem}")


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: a}\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, line = failed_start(f"--cluster-file={file}", f"--port={port}")

    assert status == 1
    assert f"127.0.0.1:{port} is in use by another program; give another port, or 0 for any" in line


def test_an_address_of_another_machine_is_named() -> None:
    status, line = failed_start("--bind-address=192.0.2.1")

    assert status == 1
    assert "cannot listen on 192.0.2.1" in line
    assert "give an address of this machine" in line


def test_an_unreachable_api_server_keeps_it_from_being_ready(
    shared_control_plane: ControlPlane, tmp_path: Path
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        server = f"https://127.0.0.1:{nobody.getsockname()[1]}"
        kubeconfig = changed(shared_control_plane.kubeconfig, tmp_path, {"cluster": {"server": server}})
        with Service(tmp_path, kubeconfig, wait_ready=False) as service:
            assert refusal(service, "api-server-release").startswith(f"{server}: ")
            assert_refuses_to_decide(service)


def test_a_wrong_token_keeps_it_from_being_ready(shared_control_plane: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = changed(shared_control_plane.kubeconfig, tmp_path, {"user": {"token": "wrong"}})
    with Service(tmp_path, kubeconfig, wait_ready=False) as service:
        assert refusal(service, "api-server-release") == "Unauthorized (401 Unauthorized)"
        assert_refuses_to_decide(service)


def test_a_user_without_rights_keeps_it_from_being_ready(shared_control_plane: ControlPlane, tmp_path: Path) -> None:
    with Service(tmp_path, shared_control_plane.user_kubeconfig("nobody"), wait_ready=False) as service:
        assert 'User "nobody" cannot list resource "nodes"' in refusal(service, "watch-nodes")
        assert_refuses_to_decide(service)


def failed_start(*arguments: str, **environment: str) -> tuple[int, str]:
    """Start the service in vain: its exit code, and the one line that it says on standard error beside its log."""
    command: list[str | Path] = [PROGRAM, "serve", "--port=0", "--log-format=json", *arguments]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=30)
    assert done.stdout == ""
    [line] = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    return done.returncode, line


def changed(kubeconfig: Path, directory: Path, changes: dict[str, Object]) -> Path:
    """A copy of a kubeconfig whose only cluster or user is changed."""
    content = yaml.safe_load(kubeconfig.read_text())
    for part, values in changes.items():
        content[f"{part}s"][0][part] |= values
    copy = directory / "changed.kubeconfig"
    copy.write_text(yaml.safe_dump(content))
    return copy


def refusal(service: Service, check: str) -> str:
    """Why the service is not ready, as /readyz says in one check once it has tried."""
    head = f"[-]{check} failed: "

    def reason() -> str:
        answer = httpx.get(f"{service.url}/readyz", trust_env=False)
        assert answer.status_code == 500
        return next(line.removeprefix(head) for line in answer.text.splitlines() if line.startswith(head))

    wait_until(lambda: reason() not in ("not synced yet", "no answer yet"), "the reason")
    return reason()


def assert_refuses_to_decide(service: Service) -> None:
    body = {"Pod": {"metadata": {"name": "p", "namespace": "default"}}, "NodeNames": ["a"]}
    answer = service.call("filter", body)
    assert answer["Error"].startswith("extender-service does not know the cluster well enough to decide")
    assert not answer["NodeNames"]

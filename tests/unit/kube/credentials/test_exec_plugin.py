import asyncio
import base64
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.credentials.exec_plugin import ExecPlugin, ExecStatus
from extender_service.kube.credentials.kubeconfig import EnvVar, ExecConfig, KubeconfigCluster, NamedExtension

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"

# Prints the ExecCredential that it is told to, after writing down what it was given.
SCRIPT = """
import json, os, sys
with open(sys.argv[1], "w") as file:
    json.dump({"info": json.loads(os.environ["KUBERNETES_EXEC_INFO"]), "stdin": sys.stdin.read(),
               "region": os.environ.get("REGION"), "home": os.environ.get("HOME")}, file)
print(sys.argv[2])
"""


def plugin(
    tmp_path: Path,
    answer: Any,
    *,
    cluster: KubeconfigCluster | None = None,
    version: str = V1,
    cluster_info: bool = False,
) -> ExecPlugin:
    config = ExecConfig(
        command=sys.executable,
        args=("-c", SCRIPT, str(tmp_path / "seen"), answer if isinstance(answer, str) else json.dumps(answer)),
        env=(EnvVar("REGION", "north"),),
        api_version=version,
        interactive_mode="Never",
        provide_cluster_info=cluster_info,
    )
    return ExecPlugin(config, cluster or KubeconfigCluster(), b"CA", "user u")


def credential(version: str = V1, **status: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "ExecCredential", "status": status}


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_the_answer_is_a_token_with_an_expiry(tmp_path: Path, version: str) -> None:
    answer = credential(version, token="T", expirationTimestamp="2030-01-02T03:04:05Z")
    status = asyncio.run(plugin(tmp_path, answer, version=version).run())
    assert status == ExecStatus("T", "", "", datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC))
    seen = json.loads((tmp_path / "seen").read_text())
    assert seen["info"] == {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}


def test_the_answer_may_be_a_client_certificate(tmp_path: Path) -> None:
    answer = credential(clientCertificateData="CERT", clientKeyData="KEY", token=None, expirationTimestamp=None)
    status = asyncio.run(plugin(tmp_path, answer).run())
    assert status == ExecStatus("", "CERT", "KEY", None)


def test_the_plugin_gets_its_environment_beside_ours_and_no_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/of-the-service")
    asyncio.run(plugin(tmp_path, credential(token="T")).run())
    seen = json.loads((tmp_path / "seen").read_text())
    assert (seen["region"], seen["home"], seen["stdin"]) == ("north", "/home/of-the-service", "")


def test_the_plugin_is_told_about_the_cluster_where_it_asks_for_that(tmp_path: Path) -> None:
    cluster = KubeconfigCluster(
        server="https://c",
        tls_server_name="name",
        proxy_url="http://proxy",
        extensions=(
            NamedExtension("other", 1),
            NamedExtension("client.authentication.k8s.io/exec", {"audience": "a"}),
        ),
    )
    asyncio.run(plugin(tmp_path, credential(token="T"), cluster=cluster, cluster_info=True).run())
    assert json.loads((tmp_path / "seen").read_text())["info"]["spec"]["cluster"] == {
        "server": "https://c",
        "tls-server-name": "name",
        "proxy-url": "http://proxy",
        "certificate-authority-data": base64.b64encode(b"CA").decode(),
        "config": {"audience": "a"},
    }


def test_the_event_loop_goes_on_while_the_plugin_runs(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.01)\nprint(sys.argv[2])"
    )
    go = tmp_path / "go"
    config = ExecConfig(
        command=sys.executable,
        args=("-c", script, str(go), json.dumps(credential(token="T"))),
        api_version=V1,
        interactive_mode="Never",
    )

    async def main() -> ExecStatus:
        running = asyncio.create_task(ExecPlugin(config, KubeconfigCluster(), b"", "user u").run())
        await asyncio.sleep(0.05)
        assert not running.done()
        go.touch()
        return await running

    assert asyncio.run(main()).token == "T"


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ("hello", "its output is not an ExecCredential"),
        (credential(V1BETA1, token="T"), f'answered with apiVersion "{V1BETA1}", not "{V1}"'),
        (credential(), "neither a token nor a client certificate"),
        ({"apiVersion": V1}, "neither a token nor a client certificate"),
        (credential(clientCertificateData="C"), "a certificate or a key, but not with both"),
        (credential(token="T\n"), "the token in its answer must be text in one line, but has a line break"),
        (credential(token="T\0"), "the token in its answer must be text in one line, but has a NUL character"),
        (credential(token="T", expirationTimestamp="tomorrow"), "not an ExecCredential: Invalid RFC3339"),
    ],
)
def test_an_answer_that_is_not_one_is_an_error(tmp_path: Path, answer: Any, complaint: str) -> None:
    with pytest.raises(CredentialsError, match=complaint) as error:
        asyncio.run(plugin(tmp_path, answer).run())
    assert str(error.value).startswith(f"user u: exec plugin {sys.executable}: ")


@pytest.mark.parametrize(
    ("command", "args", "complaint"),
    [
        ("/nowhere/login", (), r"user u: exec plugin /nowhere/login: not found; get it from the shop"),
        ("/", (), "cannot be run: Permission denied"),
        (
            sys.executable,
            ("-c", "import sys; sys.exit('oh\\nlog in first')"),
            "failed with exit code 1: log in first",
        ),
        (sys.executable, ("-c", "import sys; sys.exit(7)"), "failed with exit code 7$"),
        (sys.executable, ("a\0b",), "cannot be run: embedded null byte; command, args and env must have no NUL"),
    ],
)
def test_a_plugin_that_fails_says_so_in_one_line(command: str, args: tuple[str, ...], complaint: str) -> None:
    config = ExecConfig(command, args, api_version=V1, interactive_mode="Never", install_hint="get it\nfrom the shop")
    with pytest.raises(CredentialsError, match=complaint) as error:
        asyncio.run(ExecPlugin(config, KubeconfigCluster(), b"", "user u").run())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("variable", [EnvVar("A=B", "x"), EnvVar("A", "x\0y")])
def test_a_variable_that_no_program_can_get_is_named(variable: EnvVar) -> None:
    config = ExecConfig(sys.executable, env=(variable,), api_version=V1, interactive_mode="Never")
    with pytest.raises(CredentialsError, match="names in env no equals sign"):
        asyncio.run(ExecPlugin(config, KubeconfigCluster(), b"", "user u").run())


def test_a_plugin_that_is_cancelled_is_killed(tmp_path: Path) -> None:
    script = "import os, pathlib, sys, time\npathlib.Path(sys.argv[1]).write_text(str(os.getpid()))\ntime.sleep(3600)"
    config = ExecConfig(
        sys.executable, ("-c", script, str(tmp_path / "pid")), api_version=V1, interactive_mode="IfAvailable"
    )

    async def main() -> None:
        running = asyncio.create_task(ExecPlugin(config, KubeconfigCluster(), b"", "user u").run())
        async with asyncio.timeout(20):
            while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
                await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        (ExecConfig(), "command must be set"),
        (ExecConfig("login"), f'apiVersion "" is not supported; use {V1} or {V1BETA1}'),
        (ExecConfig("login", api_version="client.authentication.k8s.io/v1alpha1"), 'v1alpha1" is not supported'),
        (ExecConfig("login", api_version=V1), "interactiveMode is not set"),
        (ExecConfig("login", api_version=V1, interactive_mode="Always"), "a service has no terminal"),
    ],
)
def test_a_configuration_that_cannot_work_is_told_before_anything_runs(config: ExecConfig, complaint: str) -> None:
    with pytest.raises(CredentialsError, match=complaint):
        ExecPlugin(config, KubeconfigCluster(), b"", "user u")


def test_v1beta1_needs_no_interactive_mode() -> None:
    ExecPlugin(ExecConfig("login", api_version=V1BETA1), KubeconfigCluster(), b"", "user u")

import asyncio
import logging
import os
import signal
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from extender_service.cluster.state.cluster import Cluster
from extender_service.command.emulation import EmulationOptions
from extender_service.command.serve.serve import _api_server, run_service
from extender_service.command.setup import Setup
from extender_service.command.start_error import StartError
from extender_service.seams import THIS_MACHINE
from tests.support.clock import Clock
from tests.support.serve_options import mutual_tls, serve_options
from tests.support.servers.certificates import client_context, issue, overwrite, pem_files
from tests.support.servers.http_server import Request, Response, http_server

CLUSTER = """
kind: List
apiVersion: v1
items:
  - {apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}}
  - {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{image: nginx}]}}
"""


@pytest.fixture
def cluster_file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER)
    return path


def test_a_cluster_file_is_served_until_the_process_is_told_to_stop(
    cluster_file: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    async def call() -> None:
        serving = asyncio.create_task(run_service(serve_options([cluster_file])))
        async with asyncio.timeout(20), httpx.AsyncClient(trust_env=False) as client:
            while not (url := next((vars(each)["url"] for each in caplog.records if "url" in vars(each)), "")):
                await asyncio.sleep(0.01)
            ready = await client.get(f"{url}/readyz")
            assert ready.status_code == 200
            answer = await client.post(f"{url}/filter", json={"Pod": {}, "NodeNames": ["b", "a"]})
            assert answer.json()["NodeNames"] == ["a"]
            for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
                refused = await client.post(f"{url}/filter", json={"Pod": {}, "NodeNames": ["a"]}, headers=headers)
                assert refused.status_code == 403
                assert f"{next(iter(headers))} header" in refused.json()["Error"]
                assert (await client.get(f"{url}/metrics", headers=headers)).status_code == 403
            metrics = await client.get(f"{url}/metrics")
            assert 'extender_service_requests_total{result="ok",verb="filter"} 1.0' in metrics.text
            for reason in ("origin", "host"):
                assert f'extender_service_refused_connections_total{{reason="{reason}"}} 2.0' in metrics.text
            os.kill(os.getpid(), signal.SIGTERM)
            await serving

    with caplog.at_level(logging.INFO, "extender_service"):
        asyncio.run(call())
    assert "curl -s http://127.0.0.1:" in capsys.readouterr().out


VERBS = ("filter", "prioritize", "preempt", "bind")
PROBES = ("livez", "readyz", "healthz", "metrics")


@pytest.mark.parametrize("minor", [31, 37])
def test_what_is_not_judged_is_shown_wherever_an_operator_looks(
    cluster_file: Path, caplog: pytest.LogCaptureFixture, minor: int
) -> None:
    pod = {
        "metadata": {"name": "web"},
        "spec": {"resourceClaims": [{"name": "gpu"}], "containers": [{"image": "nginx"}]},
    }
    reason = "pod has spec.resourceClaims, which kube-scheduler 1.37 judges and extender-service does not"

    async def call() -> None:
        serving = asyncio.create_task(run_service(serve_options([cluster_file], emulation=EmulationOptions(minor))))
        async with asyncio.timeout(20), httpx.AsyncClient(trust_env=False) as client:
            while not (url := next((vars(each)["url"] for each in caplog.records if "url" in vars(each)), "")):
                await asyncio.sleep(0.01)
            assert "not-judged" not in (await client.get(f"{url}/readyz?verbose")).text
            for _ in range(2):
                answer = (await client.post(f"{url}/filter", json={"Pod": pod, "NodeNames": ["a"]})).json()
                # 1.31 does not use claims unless a feature gate is on.
                assert answer["NodeNames"] == (["a"] if minor == 31 else [])
                assert answer["FailedAndUnresolvableNodes"] == ({} if minor == 31 else {"a": reason})
            ready = await client.get(f"{url}/readyz?verbose")
            assert ready.status_code == 200
            assert "[+]not-judged-spec.resourceClaims ok" in ready.text.splitlines()
            metrics = await client.get(f"{url}/metrics")
            assert 'extender_service_questions_not_judged_total{field="spec.resourceClaims"} 2.0' in metrics.text
            os.kill(os.getpid(), signal.SIGTERM)
            await serving

    with caplog.at_level(logging.INFO, "extender_service"):
        asyncio.run(call())
    assert [vars(each)["field"] for each in caplog.records if "field" in vars(each)] == ["spec.resourceClaims"]


def test_with_mutual_tls_only_probes_are_for_everybody(
    cluster_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = trustme.CA()
    overwrite(tmp_path, pem_files(issue(authority, "127.0.0.1"), authority))
    options = serve_options([cluster_file], healthz_port=0, allowed_names=["kube-scheduler"], **mutual_tls(tmp_path))
    known = client_context(authority, issue(authority, "a.test", common_name="kube-scheduler"))
    strangers = [client_context(authority), client_context(authority, issue(authority, "b.test"))]

    async def call() -> None:
        serving = asyncio.create_task(run_service(options))
        async with asyncio.timeout(60):
            while not any("url" in vars(each) for each in caplog.records):
                await asyncio.sleep(0.01)
            url, probes = next((vars(each)["url"], vars(each)["probes_url"]) for each in caplog.records)

            async with httpx.AsyncClient(trust_env=False, verify=known) as client:
                answer = await client.post(f"{url}/filter", json={"Pod": {}, "NodeNames": ["a"]})
                assert answer.json()["NodeNames"] == ["a"]
                assert {(await client.get(f"{url}/{path}")).status_code for path in PROBES} == {404}
                assert {(await client.get(f"{probes}/{path}")).status_code for path in PROBES} == {200}
                assert {(await client.post(f"{probes}/{verb}", json={})).status_code for verb in VERBS} == {404}
                for context in strangers:
                    async with httpx.AsyncClient(trust_env=False, verify=context) as stranger:
                        for path in (*VERBS, *PROBES, "docs", "openapi.json", ""):
                            with pytest.raises((httpx.TransportError, ssl.SSLError)):
                                await stranger.post(f"{url}/{path}", json={})
                metrics = (await client.get(f"{probes}/metrics")).text
            refused = len((*VERBS, *PROBES, "docs", "openapi.json", ""))
            for reason in ("certificate", "name"):
                assert f'extender_service_refused_connections_total{{reason="{reason}"}} {refused}.0' in metrics
            os.kill(os.getpid(), signal.SIGTERM)
            await serving

    with caplog.at_level(logging.INFO, "extender_service"):
        asyncio.run(call())
    assert "curl -s --cacert ca.crt --cert client.crt --key client.key https://127.0.0.1:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"cluster_file": "kind: ["}, "cluster.yaml"),
        ({"config": "kind: Deployment"}, "--config: "),
        ({"kubeconfig": "clusters: 5"}, "config.yaml"),
        ({"plugins": ["nowhere:Plugin"]}, "--plugin: nowhere:Plugin: "),
        ({"shutdown_delay_seconds": 13.0}, "--shutdown-delay-duration: .* at most half"),
        ({"preemption": "service", "mode": "beside"}, "--preemption=service needs --mode=replace"),
        ({"preemption": "service"}, "--preemption=service needs an API server"),
        (
            {"kubeconfig": "", "preemption": "service", "ask_again": False},
            "--preemption=service does not work with --ask-again=false: .* or set --preemption=kube-scheduler",
        ),
    ],
)
def test_what_cannot_work_is_told_before_anything_runs(
    changes: dict[str, Any], says: str, tmp_path: Path, cluster_file: Path
) -> None:
    config = tmp_path / "config.yaml"
    options: dict[str, Any] = {"cluster_files": [cluster_file]}
    for option, value in changes.items():
        if option == "cluster_file":
            cluster_file.write_text(value)
        elif option in ("plugins", "shutdown_delay_seconds", "preemption", "mode", "ask_again"):
            options[option] = value
        else:
            config.write_text(value)
            options[option] = config
    if "kubeconfig" in options:
        options["cluster_files"] = []
    with pytest.raises(StartError, match=says):
        asyncio.run(run_service(serve_options(**options)))


def test_an_option_without_effect_is_logged(cluster_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    cluster_file.write_text("apiVersion: v1\nkind: Node\n")
    with pytest.raises(StartError):
        asyncio.run(run_service(serve_options([cluster_file], without_effect=("--kubeconfig",))))
    assert [vars(record)["option"] for record in caplog.records if record.message == "an option has no effect"] == [
        "--kubeconfig"
    ]


def test_a_read_of_the_lease_is_also_too_old_after_the_machine_has_slept() -> None:
    """CLOCK_MONOTONIC stands still while the machine sleeps, CLOCK_BOOTTIME does not."""
    boot_clock = Clock()
    machine = replace(THIS_MACHINE, clock=Clock(), boot_clock=boot_clock, host_name=lambda: "pair-a")

    async def answer(_: Request, response: Response) -> None:
        await response.send_json(200, {"spec": {"holderIdentity": "pair-a_1"}})

    async def main() -> None:
        async with asyncio.timeout(20), http_server(answer) as url:
            options = serve_options([], master=url, leader_lease=("system", "lease"))
            setup = Setup(None, [], rules=options.emulation.rules())
            async with _api_server(options, Cluster(setup.rules), setup, machine) as source:
                assert source.leadership is not None
                following = asyncio.create_task(source.leadership.follow(lambda: None))
                while "taken just now" not in (source.leadership.problem() or ""):
                    await asyncio.sleep(0.01)
                following.cancel()
                boot_clock.pass_seconds(100)
                assert "was read 100.0 s ago" in (source.leadership.problem() or "")

    asyncio.run(main())

import asyncio
import logging
import os
import signal
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from extender_service.options import ServeOptions
from extender_service.serve import _listen, _serve
from extender_service.startup import StartError

CLUSTER = """
kind: List
apiVersion: v1
items:
  - {apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}}
  - {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{image: nginx}]}}
"""


def serve_options(cluster_files: list[Path], **changes: Any) -> ServeOptions:
    options = {
        "config": None,
        "kubeconfig": None,
        "master": "",
        "cluster_files": cluster_files,
        "plugins": [],
        "mode": "replace",
        "bind_address": "127.0.0.1",
        "port": 0,
        "log_level": logging.INFO,
        "log_format": "text",
    }
    return ServeOptions(**{**options, **changes})


@pytest.fixture
def cluster_file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER)
    return path


def test_a_cluster_file_is_served_until_the_process_is_told_to_stop(
    cluster_file: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    async def call() -> None:
        serving = asyncio.create_task(_serve(serve_options([cluster_file])))
        async with asyncio.timeout(20), httpx.AsyncClient(trust_env=False) as client:
            while not (url := next((vars(each)["url"] for each in caplog.records if "url" in vars(each)), "")):
                await asyncio.sleep(0.01)
            ready = await client.get(f"{url}/readyz")
            assert ready.status_code == 200
            answer = await client.post(f"{url}/filter", json={"Pod": {}, "NodeNames": ["b", "a"]})
            assert answer.json()["NodeNames"] == ["a"]
            metrics = await client.get(f"{url}/metrics")
            assert 'extender_service_requests_total{result="ok",verb="filter"} 1.0' in metrics.text
            os.kill(os.getpid(), signal.SIGTERM)
            await serving

    with caplog.at_level(logging.INFO, "extender_service"):
        asyncio.run(call())
    assert "curl -s http://127.0.0.1:" in capsys.readouterr().out


@pytest.mark.parametrize(("address", "host"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_a_port_that_is_in_use_is_named(address: str, host: str) -> None:
    with socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartError) as raised:
            _listen(serve_options([], bind_address=address, port=port))
    assert str(raised.value) == (f"--port: {host}:{port} is in use by another program; give another port, or 0 for any")


@pytest.mark.parametrize("address", ["192.0.2.1", "not an address"])
def test_an_address_of_another_machine_is_named(address: str) -> None:
    with pytest.raises(StartError) as raised:
        _listen(serve_options([], bind_address=address, port=0))
    assert str(raised.value).startswith(f"--bind-address, --port: cannot listen on {address}:0: ")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"cluster_file": "kind: ["}, "cluster.yaml"),
        ({"config": "kind: Deployment"}, "--config: "),
        ({"kubeconfig": "clusters: 5"}, "config.yaml"),
        ({"plugins": ["nowhere:Plugin"]}, "--plugin: nowhere:Plugin: "),
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
        elif option == "plugins":
            options[option] = value
        else:
            config.write_text(value)
            options[option] = config
    if "kubeconfig" in options:
        options["cluster_files"] = []
    with pytest.raises(StartError, match=says):
        asyncio.run(_serve(serve_options(**options)))

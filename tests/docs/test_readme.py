"""The commands of README.md under "Try it" work in a fresh clone, pasted into a fresh shell one after the other."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
import yaml

from tests.support.servers.free_ports import free_port

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PORT = "8888"
# What git does not have.
GENERATED = (".*_cache", ".git", ".hypothesis", ".venv", "__pycache__", "build", "dist", "mutants")
READY_SECONDS = 120


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "extender-service"
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*GENERATED))
    return folder


@pytest.fixture
def kubectl(tmp_path: Path) -> Path:
    """A folder with a kubectl that prints nodes and pods of the demo cluster, whatever it is asked."""
    documents = yaml.safe_load_all((ROOT / "examples" / "demo-cluster.yaml").read_text())
    items = [item for item in documents if item and item["kind"] in ("Node", "Pod")]
    (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nexec cat {tmp_path}/cluster.json\n")
    program.chmod(0o755)
    return program.parent


def test_the_commands_under_try_it_do_what_is_said(clone: Path, kubectl: Path) -> None:
    section = README.partition("\n## Try it\n")[2].partition("\n## ")[0]
    make_run, ask, own_cluster = re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    [answer] = re.findall(r"^```json\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    port = str(free_port())
    # The reader has not installed the service.
    path = [folder for folder in os.environ["PATH"].split(":") if not (Path(folder) / "extender-service").exists()]
    environment = {
        **{name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")},
        "PATH": ":".join([str(kubectl), *path]),
        "EXTENDER_SERVICE_PORT": port,
        "NO_PROXY": "127.0.0.1",
    }

    with serving(make_run, clone, environment, port):
        command = ["bash", "-euc", ask.replace(PORT, port)]
        answered = subprocess.run(command, check=True, capture_output=True, cwd=clone, env=environment).stdout
        assert json.loads(answered) == json.loads(answer)
    with serving(own_cluster, clone, environment, port):
        assert len(json.loads((clone / "cluster.json").read_text())["items"]) > 1


@contextmanager
def serving(commands: str, folder: Path, environment: dict[str, str], port: str) -> Iterator[None]:
    """A shell that runs commands of which the last one serves, until the context ends."""
    shell = subprocess.Popen(
        ["bash", "-euc", commands],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        ready = is_ready(shell, port)
        if ready:
            yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        printed, _ = shell.communicate()
    assert ready, printed


def is_ready(shell: subprocess.Popen[str], port: str) -> bool:
    """Wait until the service answers; whether it did, and its shell goes on."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and shell.poll() is None:
        with suppress(httpx.TransportError):
            return httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False).is_success
        time.sleep(0.1)
    return False


def test_how_many_times_faster_it_is_stands_in_two_places_alike() -> None:
    [(least, most)] = re.findall(r"cycle is ([\d.]+) to (\d+) times as fast", README)
    [row] = re.findall(r"^\| kube-scheduler's whole cycle .* \| (.*) times faster \|$", README, re.MULTILINE)
    of_500, of_5000 = row.split(" / ")
    assert (least, most) == (of_500.split(" to ")[0], of_5000.split(" to ")[1])

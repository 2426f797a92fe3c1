"""What the image holds, found out without Docker: the instructions of its build stage are carried out in a folder."""

import email
import hashlib
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def instructions(stage: str) -> Iterator[tuple[str, str]]:
    """Name and arguments of each instruction of a stage of the Dockerfile."""
    [_, text] = (ROOT / "Dockerfile").read_text().split(f" AS {stage}\n")
    lines = (line for line in text.replace("\\\n", " ").splitlines() if line and not line.startswith("#"))
    for line in lines:
        name, _, arguments = line.partition(" ")
        if name == "FROM":
            return
        yield name, arguments


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the build stage makes in /opt/extender-service."""
    build, made = tmp_path_factory.mktemp("build"), tmp_path_factory.mktemp("opt") / "extender-service"
    sent = (ROOT / ".dockerignore").read_text().splitlines()
    variables = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    for name, arguments in instructions("build"):
        words = shlex.split(arguments)
        if name == "COPY":
            *sources, target = words
            for source in sources:
                assert f"!{source}" in sent, "Docker's context lacks it"
                to = build if target in ("./", "/build/") else build / target
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, to, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(ROOT / source, to)
        elif name == "ENV":
            # Downloading everything again and compiling it would only take time.
            values = dict(word.split("=") for word in words)
            variables |= values | {"UV_NO_CACHE": "0", "UV_COMPILE_BYTECODE": "0", "UV_PROJECT_ENVIRONMENT": str(made)}
        elif name == "RUN" and words[0] == "uv":
            command = arguments.replace("/opt/extender-service", str(made)).replace("uv ", f"{ROOT}/scripts/uv ")
            subprocess.run(command, shell=True, check=True, cwd=build, env=variables, capture_output=True)
    return made


@pytest.fixture(scope="module")
def bill(environment: Path) -> dict[str, Any]:
    bill: dict[str, Any] = json.loads((environment / "extender-service.cdx.json").read_text())
    return bill


def test_the_service_runs_in_it(environment: Path) -> None:
    command = [str(environment / "bin" / "extender-service"), "version"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, cwd="/").stdout
    assert "extender-service" in answer


def test_the_licence_is_in_it(environment: Path) -> None:
    [installed] = environment.glob("lib/python*/site-packages/extender_service-*.dist-info")
    metadata = email.message_from_string((installed / "METADATA").read_text())
    assert (metadata["License-Expression"], metadata.get_all("License-File")) == ("Apache-2.0", ["LICENSE"])
    # The Apache Software Foundation's own file, byte for byte.
    licence = (installed / "licenses" / "LICENSE").read_bytes()
    assert hashlib.sha256(licence).hexdigest() == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


def test_its_bill_of_materials_names_every_package_in_it(environment: Path, bill: dict[str, Any]) -> None:
    listing = [str(ROOT / "scripts" / "uv"), "pip", "list", "--format=json", "--python", str(environment)]
    installed = json.loads(subprocess.run(listing, check=True, capture_output=True, text=True).stdout)
    itself = bill["metadata"]["component"]

    found = {(component["name"], component["version"]) for component in [itself, *bill["components"]]}

    assert len(installed) > 20
    assert {(package["name"], package["version"]) for package in installed} <= found
    assert "pytest" not in {name for name, _ in found}


def test_every_package_in_it_has_a_hash_to_check(bill: dict[str, Any]) -> None:
    for component in bill["components"]:
        files = component["externalReferences"]
        assert files, component["name"]
        assert all(file["hashes"] for file in files), component["name"]

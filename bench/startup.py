"""How long `extender-service serve` takes from its start until it is ready: python -m bench.startup [--rounds N].

Against an empty API server (tests/e2e's control plane, which needs Go), and on an empty cluster file. The service is
installed as for production: libraries of the development environment would be imported along.
"""

import argparse
import os
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests import go_programs
from tests.e2e.control_plane import ControlPlane

ROOT = Path(__file__).parents[1]
LIMIT_SECONDS = 30.0


def main() -> None:
    """Print one line for each kind of cluster."""
    parser = argparse.ArgumentParser(prog="python -m bench.startup", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        install(Path(folder) / "environment")
        program = Path(folder) / "environment" / "bin" / "extender-service"
        empty = Path(folder) / "empty.yaml"
        empty.write_text("apiVersion: v1\nkind: List\nitems: []\n")
        report("empty cluster file", [ready_seconds(program, "--cluster-file", str(empty)) for _ in range(rounds)])
        if not go_programs.has_go():
            print("empty API server: not measured, it needs Go")
            return
        binary = go_programs.build(ROOT / "tests" / "e2e" / "controlplane")
        with ControlPlane(binary, Path(folder)) as control_plane:
            kubeconfig = str(control_plane.kubeconfig)
            report("empty API server", [ready_seconds(program, "--kubeconfig", kubeconfig) for _ in range(rounds)])


def install(environment: Path) -> None:
    """Install the service and what it needs, nothing else."""
    command: list[str | Path] = [
        ROOT / "scripts" / "uv",
        "sync",
        "--quiet",
        "--frozen",
        "--no-default-groups",
        "--compile-bytecode",
    ]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"UV_PROJECT_ENVIRONMENT": str(environment)}, check=True)


def ready_seconds(program: Path, *options: str) -> float:
    """Start the service, wait until /readyz says ok, and stop it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command: list[str | Path] = [program, "serve", "--port", str(port), *options]
    started = time.perf_counter()
    service = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while time.perf_counter() - started < LIMIT_SECONDS:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz"):
                    return time.perf_counter() - started
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.01)
        raise TimeoutError(f"not ready after {LIMIT_SECONDS:g} s")
    finally:
        service.terminate()
        service.wait()


def report(what: str, seconds: list[float]) -> None:
    """Print the median and the range."""
    median = statistics.median(seconds)
    print(f"{what}: ready after {median:.2f} s (median of {len(seconds)}, {min(seconds):.2f} to {max(seconds):.2f})")


if __name__ == "__main__":
    main()

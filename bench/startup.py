"""Times `extender-service serve` from its start until it is ready: python -m bench.startup.

Measures it with an empty API server (the control plane of tests/e2e, which needs Go), and with an empty cluster file.
Installs the service without development dependencies, because the service would import some of them.
"""

import os
import socket
import statistics
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from bench.figures import Row
from bench.run import NEEDS_GO, Run, main
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.support import go_programs

ROOT = Path(__file__).parents[1]
LIMIT_SECONDS = 30.0


def run(the: Run) -> None:
    """Print a line for each kind of cluster."""
    environment = the.directory / "environment"
    install(environment)
    program = environment / "bin" / "extender-service"
    empty = the.directory / "empty.yaml"
    empty.write_text("apiVersion: v1\nkind: List\nitems: []\n")
    rows = [_row("an empty cluster file", the.rounds, program, "--cluster-file", str(empty))]
    if go_programs.has_go():
        files = the.directory / "etcd"
        files.mkdir()
        with ControlPlane(go_programs.build(ROOT / "tests" / "e2e" / "controlplane"), files) as control_plane:
            kubeconfig = str(control_plane.kubeconfig)
            rows.append(_row("an empty API server", the.rounds, program, "--kubeconfig", kubeconfig))
    else:
        the.report.note("startup", f"an empty API server: {NEEDS_GO}")
    the.report.table("startup", "seconds from its start until the service is ready", rows)


def _row(what: str, rounds: int, program: Path, *options: str) -> Row:
    seconds = [ready_seconds(program, *options) for _ in range(rounds)]
    return {"with": what, "median": statistics.median(seconds), "least": min(seconds), "most": max(seconds)}


def install(environment: Path) -> None:
    """Install the service with its runtime dependencies only."""
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
    """Start the service, wait until it is ready, and stop it. Returns the seconds that this took, without the stop."""
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


if __name__ == "__main__":
    main("python -m bench.startup", __doc__, [run])

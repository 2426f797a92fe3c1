"""Builds the control plane's binary out of tests/e2e/controlplane into the user's cache."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

MODULE = Path(__file__).parents[1]
PACKAGE = Path(__file__).with_name("controlplane")

# The command packages take their version from the linker, as in Kubernetes' own build.
VERSION = "k8s.io/component-base/version"
LINKER_FLAGS = f"-s -w -X {VERSION}.gitVersion=v1.31.1 -X {VERSION}.gitMajor=1 -X {VERSION}.gitMinor=31"


def has_go() -> bool:
    """Whether the go command is on the PATH."""
    return shutil.which("go") is not None


def build() -> Path:
    """Build the binary unless one of the same sources is in the cache, and return where it is.

    A first build downloads its modules and takes some minutes. Raises RuntimeError with what the Go tool said.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "extender-service"
    cache.mkdir(parents=True, exist_ok=True)
    binary = cache / f"controlplane-{source_hash()}"
    with (cache / "controlplane.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs at once build it once
        if not binary.exists():
            run_go_build(binary)
    return binary


def source_hash() -> str:
    """Changes with everything of ours that goes into the binary."""
    digest = hashlib.sha256(LINKER_FLAGS.encode())
    for source in [MODULE / "go.mod", MODULE / "go.sum", *sorted(PACKAGE.glob("*.go"))]:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def run_go_build(binary: Path) -> None:
    """Replace all older binaries in the cache, of 140 MB each, by this one."""
    unfinished = binary.with_suffix(".unfinished")
    options: list[str | Path] = ["-p", "2", "-trimpath", "-ldflags", LINKER_FLAGS, "-o", unfinished]
    command = ["go", "build", *options, f"./{PACKAGE.relative_to(MODULE)}"]
    built = subprocess.run(command, cwd=MODULE, capture_output=True, text=True)
    if built.returncode:
        raise RuntimeError(f"go build failed in {MODULE}:\n{built.stderr}")
    for older in binary.parent.glob("controlplane-*"):
        if older != unfinished:
            older.unlink()
    unfinished.rename(binary)

"""Builds Go programs, the tests' own and those of bench/peers, into the user's cache."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

_VERSION = "k8s.io/component-base/version"
_KUBERNETES = re.compile(r"k8s\.io/kubernetes (v1\.(\d+)\.\d+)\n")


def has_go() -> bool:
    """Whether the go command is on the PATH."""
    return shutil.which("go") is not None


def build(package: Path) -> Path:
    """Build a program of any Go module unless one of the same sources is in the cache, and return where it is.

    In the cache it has the name of its folder, which no other program may have. A first build downloads its modules and
    takes some minutes. Raises RuntimeError with what the Go tool said.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "extender-service"
    cache.mkdir(parents=True, exist_ok=True)
    binary = cache / f"{package.name}-{source_hash(package)}"
    with (cache / f"{package.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs at once build it once
        if not binary.exists():
            _run_go_build(package, binary)
    return binary


def source_hash(package: Path) -> str:
    """Changes with everything of ours that goes into a program."""
    module = _module_of(package)
    shared = sorted((module / "internal").rglob("*.go"))
    digest = hashlib.sha256(_linker_flags(module).encode())
    for source in [module / "go.mod", module / "go.sum", *shared, *sorted(package.glob("*.go"))]:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _module_of(package: Path) -> Path:
    return next(folder for folder in package.parents if (folder / "go.mod").exists())


def _linker_flags(module: Path) -> str:
    """Kubernetes' command packages take their version from the linker, as in Kubernetes' own build."""
    found = _KUBERNETES.search((module / "go.mod").read_text())
    assert found is not None, f"{module} does not say which Kubernetes it needs"
    return f"-s -w -X {_VERSION}.gitVersion={found[1]} -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor={found[2]}"


def _run_go_build(package: Path, binary: Path) -> None:
    """Replace all older builds of a program in the cache, of 100 MB each, by this one."""
    module = _module_of(package)
    unfinished = binary.with_suffix(".unfinished")
    options: list[str | Path] = ["-p", "2", "-trimpath", "-ldflags", _linker_flags(module), "-o", unfinished]
    built = subprocess.run(
        ["go", "build", *options, f"./{package.relative_to(module)}"], cwd=module, capture_output=True, text=True
    )
    if built.returncode:
        raise RuntimeError(f"go build failed in {module}:\n{built.stderr}")
    for older in binary.parent.glob(f"{package.name}-*"):
        if older != unfinished:
            older.unlink()
    unfinished.rename(binary)

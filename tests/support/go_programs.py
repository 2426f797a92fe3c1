"""Builds Go programs, the tests' own and those of bench/peers, into the user's cache."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from extender_service.config.release import NEWEST_MINOR

_VERSION = "k8s.io/component-base/version"
_KUBERNETES = re.compile(r"k8s\.io/kubernetes (v1\.(\d+)\.\d+)\n")


def has_go() -> bool:
    """Whether the go command is on the PATH."""
    return shutil.which("go") is not None


def build(package: Path, minor: int | None = None) -> Path:
    """Build a program of any Go module unless one of the same sources is in the cache, and return where it is.

    With `minor`, it is built of the modules in releases/v1.MINOR.mod instead of its module's own. In the cache it has
    the name of its folder, which no other program may have. A first build downloads its modules and takes some minutes.
    Raises RuntimeError with what the Go tool said.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "extender-service"
    cache.mkdir(parents=True, exist_ok=True)
    name = package.name if minor is None else f"{package.name}_of_1_{minor}"
    binary = cache / f"{name}-{source_hash(package, minor)}"
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs at once build it once
        if not binary.exists():
            _run_go_build(package, minor, binary)
            _remove_older(cache, name, binary)
    return binary


def source_hash(package: Path, minor: int | None = None) -> str:
    """Changes with everything of ours that goes into a program."""
    module = _module_of(package)
    versions = _versions(module, minor)
    shared = sorted((module / "internal").rglob("*.go"))
    digest = hashlib.sha256(_linker_flags(versions).encode())
    for source in [versions, versions.with_suffix(".sum"), *shared, *sorted(package.glob("*.go"))]:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _module_of(package: Path) -> Path:
    return next(folder for folder in package.parents if (folder / "go.mod").exists())


def _versions(module: Path, minor: int | None) -> Path:
    """The file that has the versions of all modules; those of their sums are beside it."""
    return module / "go.mod" if minor is None else module / "releases" / f"v1.{minor}.mod"


def _linker_flags(versions: Path) -> str:
    """Kubernetes' command packages take their version from the linker, as in Kubernetes' own build."""
    found = _KUBERNETES.search(versions.read_text())
    assert found is not None, f"{versions} does not say which Kubernetes it needs"
    return f"-s -w -X {_VERSION}.gitVersion={found[1]} -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor={found[2]}"


def _tags(minor: int | None) -> Sequence[str]:
    """The build tags of a release before the newest: files of a module say by them which releases they are for."""
    later = range(minor + 1, NEWEST_MINOR + 1) if minor is not None else ()
    return ["-tags", ",".join(f"before_1_{each}" for each in later)]


def _run_go_build(package: Path, minor: int | None, binary: Path) -> None:
    module = _module_of(package)
    versions = _versions(module, minor)
    unfinished = binary.with_suffix(".unfinished")
    options: list[str | Path] = ["-p", "2", "-trimpath", "-modfile", versions, *_tags(minor)]
    options += ["-ldflags", _linker_flags(versions), "-o", unfinished]
    built = subprocess.run(
        ["go", "build", *options, f"./{package.relative_to(module)}"], cwd=module, capture_output=True, text=True
    )
    if built.returncode:
        raise RuntimeError(f"go build failed in {module}:\n{built.stderr}")
    unfinished.rename(binary)


def _remove_older(cache: Path, name: str, newest: Path) -> None:
    """Keep one build of a program, of 100 MB each."""
    for found in cache.glob(f"{name}-*"):
        if found != newest:
            found.unlink()

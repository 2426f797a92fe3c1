"""The releases of Kubernetes that this program can follow, each by its minor version."""

import re

OLDEST_MINOR = 31
NEWEST_MINOR = 37

# As apimachinery's version.Parse reads them.
_VERSION = re.compile(r"\s*v?1\.([1-9][0-9]{0,2})(\.[0-9]+)?\s*", re.ASCII)


def parse_emulated_version(text: str) -> int:
    """Return the minor of one value of --emulated-version, such as 1.34 or kube=1.34. Raises ValueError."""
    component, equals, version = text.rpartition("=")
    if equals and component.strip() != "kube":
        raise ValueError(f"component {component.strip()!r} is not known: write kube={version}, or {version}")
    found = _VERSION.fullmatch(version)
    if found is None:
        raise ValueError(f"{version!r} is not a version: write major.minor, such as 1.{NEWEST_MINOR}")
    if found[2] is not None:
        raise ValueError(f"patch version not allowed, got: {version.strip()}, write 1.{found[1]}")
    minor = int(found[1])
    if not OLDEST_MINOR <= minor <= NEWEST_MINOR:
        raise ValueError(f"1.{minor} is not within 1.{OLDEST_MINOR} and 1.{NEWEST_MINOR}")
    return minor


def nearest_minor(minor: int) -> int:
    """Return the minor of the release that can be followed and is nearest to 1.`minor`."""
    return min(max(minor, OLDEST_MINOR), NEWEST_MINOR)


def version_of(minor: int) -> str:
    """Return a release as --emulated-version takes it: major.minor."""
    return f"1.{minor}"

"""Tests that run with more than one release of Kubernetes."""

import pytest

from extender_service.config.release import NEWEST_MINOR, OLDEST_MINOR, version_of

# Runs a test with the control planes and oracles of the oldest and the newest release: all fixtures follow `minor`.
both_releases = pytest.mark.parametrize(
    "minor", [OLDEST_MINOR, NEWEST_MINOR], ids=version_of, scope="session", indirect=True
)


def deciding_as(minor: int) -> str:
    """Return the option that has the service or the scheduler decide as this release."""
    return f"--emulated-version={version_of(minor)}"

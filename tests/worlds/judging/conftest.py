"""The reference, built for two releases."""

from collections.abc import Callable
from pathlib import Path

import pytest

from extender_service.config.release import NEWEST_MINOR
from tests.conformance import oracle


@pytest.fixture(scope="session")
def reference(build_go: Callable[[Path], Path]) -> Path:
    """The oracle's program, built."""
    return build_go(oracle.ORACLE)


@pytest.fixture(scope="session")
def newest_reference(build_go: Callable[[Path], Path]) -> Path:
    """The oracle of the newest release, built."""
    return build_go(oracle.ORACLES[NEWEST_MINOR])

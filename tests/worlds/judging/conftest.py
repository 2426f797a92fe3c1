"""The reference, built."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance import oracle


@pytest.fixture(scope="session")
def reference(build_go: Callable[[Path], Path]) -> Path:
    """The oracle's program, built."""
    return build_go(oracle.ORACLE)

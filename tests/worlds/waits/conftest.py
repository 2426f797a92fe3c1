"""What the tests of excuses have in common."""

import pytest


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let excuses take the `Leader` of tests for a process of `schedule`."""
    monkeypatch.setattr("tests.worlds.waits.excuses.scheduler_insides", lambda replica: replica)
    monkeypatch.setattr("tests.worlds.waits.history.known_versions", lambda insides: insides.known.items())

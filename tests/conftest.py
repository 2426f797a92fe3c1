"""What all tests share: Go programs, and who runs which tests where two processes do.

Without Go some tests are skipped; with CI=true in the environment they fail.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from xdist.remote import Producer

from tests.support import go_programs
from tests.support.distribution import FewEndToEndTests

# No test asserts how long something takes: a busy machine is no fault.
settings.register_profile("any machine", deadline=None)
# Of a mutant, the tests only need to say that they fail: the same examples each time, and no smaller ones.
settings.register_profile(
    "mutation", deadline=None, derandomize=True, database=None, phases=[Phase.explicit, Phase.generate], max_examples=25
)
settings.load_profile("any machine")

NEEDS_GO = "tests against Kubernetes itself need Go (https://go.dev/dl) to build it"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Don't count the first build of a program, which takes minutes, towards a test's time-out."""
    for item in items:
        if "build_go" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(300, func_only=True))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FewEndToEndTests | None:
    """Deal out tests as `FewEndToEndTests` does where files are asked for (--dist loadfile)."""
    return FewEndToEndTests(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line why tests were skipped, also when nobody asked for reasons."""
    skipped = [report for report in terminalreporter.stats.get("skipped", ()) if NEEDS_GO in str(report.longrepr)]
    if skipped:
        terminalreporter.write_line(f"Skipped {len(skipped)}: {NEEDS_GO}")


@pytest.fixture(scope="session")
def build_go() -> Callable[[Path], Path]:
    """Builds a program, once for each state of its sources, and tells where it is."""
    if go_programs.has_go():
        return go_programs.build
    if os.environ.get("CI") == "true":
        pytest.fail(f"{NEEDS_GO}, and with CI=true none may be skipped", pytrace=False)
    pytest.skip(NEEDS_GO)

"""How `make test` deals out tests to its two processes (pytest-xdist)."""

from xdist.scheduler import LoadScopeScheduling

# Here, tests wait for what schedulers, services and control planes do together: they run one after the other. Those of
# tests/e2e/operation mostly start one program and ask it, so they may run beside any others.
ONE_AFTER_THE_OTHER = ("tests/e2e/placement/", "tests/e2e/resilience/", "tests/e2e/scheduler/")


class FewEndToEndTests(LoadScopeScheduling):
    """Gives a process one file after the other, and one of them all end-to-end tests that wait for several programs."""

    def _split_scope(self, nodeid: str) -> str:
        """Return what a test belongs to: the tests of one run in one process, in their order."""
        file = nodeid.partition("::")[0]
        return "end-to-end" if file.startswith(ONE_AFTER_THE_OTHER) else file

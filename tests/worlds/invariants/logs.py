"""What holds of the programs' logs."""

from tests.worlds.invariants.observed import Observed

# What a replica logs that has lost its lease, as it does while it is frozen.
_EXPECTED_ERRORS = ("lost the leader lease", "error=not sent: ")


class NothingUnexpectedLogged:
    """No program logs an error, except those that a fault explains."""

    name = "nothing unexpected logged"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed

    def at_end(self) -> None:
        """Look at all lines of the history."""
        for line in self._observed.world.trace.lines:
            if ": ERROR " in line and not any(text in line for text in _EXPECTED_ERRORS):
                at, _, what = line.split(" ", 2)
                self._observed.violated(self, what, at=at)

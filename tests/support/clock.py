"""Time that passes when a test says so."""


class Clock:
    """A clock for what asks it by calling it; stands still until told otherwise."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        self.now += seconds

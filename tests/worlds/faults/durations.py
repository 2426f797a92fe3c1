"""How long faults last."""

from random import Random


def some_seconds(random: Random) -> float:
    """Draw how long a fault lasts: less or more than time-outs and the duration of a lease."""
    return random.choice((0.5, 3.0, 12.0, 25.0)) * random.uniform(0.5, 1.5)

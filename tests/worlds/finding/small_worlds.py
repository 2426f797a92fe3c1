"""Small worlds: a few nodes and pods for a few minutes, so that many seeds can be run in little time."""

from random import Random

from tests.worlds.scenarios import Mode, Scenario


def small_world(seed: int, mode: Mode | None = None) -> Scenario:
    """Return the small world of a seed, with `serve` if a mode is given.

    Sizes are drawn, too: some defects show among few pods only, others where nodes are full (swarm testing).
    """
    random = Random(f"small world {seed}")
    return Scenario(
        seed,
        minutes=random.choice((3.0, 4.0, 4.0, 6.0)),
        replicas=random.choice((1, 2, 2, 2)),
        nodes=random.randint(1, 5),
        pods=random.choice((8, 15, 30)),
        has_others=random.random() < 0.8,
        has_faults=random.random() < 0.9,
        mode=mode,
    )

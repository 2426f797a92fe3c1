"""What is done once most of what is in memory stays there until the program ends."""

import gc

from extender_service.seams import Machine


def settle_memory(machine: Machine) -> None:
    """Exclude all present objects from garbage collection: most of them, the cluster's, stay until the process ends.

    From then on, collect less often than by default: a call or an attempt makes many objects, and reference counting
    frees nearly all of them.
    """
    # Not the oldest generation: that takes 50 ms with 150,000 pods, and frees little.
    gc.collect(1)
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)
    machine.memory_settled()

"""The parts of the scheduler that small worlds are to reach."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parents[3] / "extender_service"
# By name of the part: how the paths of its files in the package begin.
PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "queue": ("queue/",),
    "scheduler": ("scheduler/",),
    "scheduling": ("scheduling/",),
    "watching": ("kube/watching/",),
    "binding": (
        "scheduling/binder.py",
        "scheduling/binding_cycle.py",
        "scheduling/confirmations.py",
        "plugins/default_binder.py",
    ),
    "leader election": ("scheduler/leader_election.py", "kube/writing/leases.py", "command/schedule/election.py"),
}

"""What a simulation found for a pod that waited."""

from typing import Final

import msgspec

# Reasons beside those of the condition PodScheduled (Unschedulable, SchedulerError, SchedulingGated).
OTHER_SCHEDULER: Final = "OtherScheduler"
DELETED: Final = "Deleted"
GATED: Final = "SchedulingGated"


class PodOutcome(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A pod that was pending, and its node, or why it has none.

    - `node`: where it goes; empty if it has no place
    - `reason`, `message`: why it has none, as in its condition PodScheduled; OtherScheduler if no profile has its
      scheduler name, Deleted if it is being deleted. If it has a node, there is no reason, and the message says why it
      goes there, of a simulation that `explains`
    - `victims`: the pods, as namespace/name, that preemption deleted for it
    """

    namespace: str
    name: str
    node: str = ""
    reason: str = ""
    message: str = ""
    victims: tuple[str, ...] = ()

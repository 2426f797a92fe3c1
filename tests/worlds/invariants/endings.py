"""What holds in the end, once faults are over and all had time to settle."""

from tests.worlds.api_server.kinds import PODS
from tests.worlds.invariants.observed import Observed


class FittingPodsBound:
    """Every pod is on a node."""

    name = "fitting pods bound"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed

    def at_end(self) -> None:
        """Look at all pods."""
        for item in self._observed.model.etcd.all(PODS):
            if not item.value["spec"].get("nodeName"):
                self._observed.violated(self, f"pod {item.key} is on no node")

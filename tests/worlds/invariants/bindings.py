"""What holds of bindings."""

from tests.worlds.api_server.etcd import Change
from tests.worlds.api_server.kinds import PODS, Kind
from tests.worlds.invariants.observed import Observed


class BoundOnce:
    """A pod is on one node from its binding to its end: its node never changes, and it is never without one again."""

    name = "bound once"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        observed.model.etcd.listeners.append(self._see)

    def _see(self, kind: Kind, change: Change) -> None:
        if kind is not PODS or change.before is None or change.after is None:
            return
        before, after = change.before.value, change.after.value
        node, new_node = before["spec"].get("nodeName"), after["spec"].get("nodeName")
        if node and node != new_node and before["metadata"]["uid"] == after["metadata"]["uid"]:
            self._observed.violated(self, f"pod {change.item.key} was on {node}, and is on {new_node or 'no node'} now")

    def at_end(self) -> None:
        """Nothing is left to say."""

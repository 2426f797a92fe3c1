"""The pods for which preemption makes room on a node, until they run there (nominator in internal/queue).

What preemption decided counts at once, before the API server has a pod's nominatedNodeName.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from extender_service.cluster.structures.change_log import ChangeLog
from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.pods import pod_uid


class NominatedPod(NamedTuple):
    """A nominated pod by its key, which is namespace/name, and its UID."""

    key: str
    uid: str


class Nominator:
    """Nominated pods by node. `is_pending` returns whether the watch shows a pod of this key that is on no node.

    With `keeps_empty`, a nomination for the empty name is one; from v1.37 on, it ends the one before.
    """

    def __init__(self, is_pending: Callable[[str], bool], *, keeps_empty: bool = True) -> None:
        self._is_pending = is_pending
        self._keeps_empty = keeps_empty
        # By UID, in the order in which they were nominated. Thousands may be for the empty name.
        self._by_node: dict[str, dict[str, NominatedPod]] = {}
        self._node_of: dict[str, str] = {}
        self.changes: ChangeLog[str] = ChangeLog()
        """The UIDs of pods that were nominated for a node, or are not any more."""

    def on_node(self, node_name: str) -> list[NominatedPod]:
        """Return the pods that are nominated for a node, in the order in which they were."""
        return list(self._by_node.get(node_name, {}).values())

    def on_nodes(self) -> Iterator[tuple[str, str]]:
        """Yield the UIDs and nodes of the pods that are nominated for a node, and not for the empty name."""
        for node_name, pods in self._by_node.items():
            if node_name:
                for uid in pods:
                    yield uid, node_name

    @property
    def node_of(self) -> dict[str, str]:
        """The nominated node by the pod's UID, which may be the empty name; not to be changed."""
        return self._node_of

    def add(self, pod: Pod, node_name: str | None = None) -> None:
        """Nominate a pod for a node, instead of an earlier one; without a name, for the one in its status, if any.

        Nothing is nominated if the watch shows that the pod is gone or on a node.
        """
        uid = pod_uid(pod)
        self.remove(pod)
        if node_name is None:
            node_name = pod.status.nominated_node_name
            if not node_name:
                return
        if not (node_name or self._keeps_empty):
            return
        if not self._is_pending(pod_name(pod)):
            return
        self._node_of[uid] = node_name
        self._by_node.setdefault(node_name, {})[uid] = NominatedPod(pod_name(pod), uid)
        self._note(uid, node_name)

    def update(self, old: Pod, new: Pod) -> None:
        """Take in an update of a pod, as nominatedNodeName in its status says.

        If neither version has one, the update is older than what preemption decided here, and that stays.
        """
        node_name = None
        if not old.status.nominated_node_name and not new.status.nominated_node_name:
            node_name = self._node_of.get(pod_uid(old))
        self.remove(old)
        self.add(new, node_name)

    def remove(self, pod: Pod) -> None:
        """Nominate a pod for no node; nothing happens if it was for none."""
        uid = pod_uid(pod)
        node_name = self._node_of.pop(uid, None)
        if node_name is None:
            return
        pods = self._by_node[node_name]
        del pods[uid]
        if not pods:
            del self._by_node[node_name]
        self._note(uid, node_name)

    def _note(self, uid: str, node_name: str) -> None:
        if node_name:
            self.changes.append(uid)

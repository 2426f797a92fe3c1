"""What was decided about nominations, until the watch shows it.

kube-scheduler writes a nomination before it attempts the next pod, and the watch soon shows it. Here the write may
wait. A pod that was tried meanwhile without its nominated node would preempt others elsewhere, though its victims are
going. So what was decided about a nomination is kept here until the watch shows it, or it is known that the watch never
will: the write failed, or changed nothing. docs/scheduler.md draws what becomes of a nomination.
"""

from collections.abc import Mapping

from msgspec import structs

from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.pods import pod_uid


class DecidedNominations:
    """The nominated nodes that the watch does not show yet, of the pods that it shows on no node: `shown` by key."""

    def __init__(self, shown: Mapping[str, Pod]) -> None:
        self._shown = shown
        # "" where a nomination is withdrawn.
        self._node_names: dict[str, str] = {}

    def decide(self, pod: Pod, node_name: str) -> None:
        """Note that a pod is about to be nominated for a node; an empty name takes its nominated node back."""
        key = pod_name(pod)
        shown = self._shown.get(key)
        if shown is None or pod_uid(shown) != pod_uid(pod):
            return
        # A node that the watch shows may be that of an earlier write, while a later one is on its way.
        if key in self._node_names or shown.status.nominated_node_name != node_name:
            self._node_names[key] = node_name

    def forget(self, key: str, uid: str) -> None:
        """Forget what was decided about a pod's nomination, which the watch will not show: what it shows counts."""
        shown = self._shown.get(key)
        if shown is not None and pod_uid(shown) == uid:
            self._node_names.pop(key, None)

    def as_decided(self, pod: Pod) -> Pod:
        """Return a pod of the watch with the nominated node that was decided for it."""
        node_name = self._node_names.get(pod_name(pod))
        return pod if node_name is None else nominated(pod, node_name)

    def is_shown(self, pod: Pod, node_name: str) -> bool:
        """Return whether the watch shows that a pod is nominated for a node, and nothing else was decided since."""
        key = pod_name(pod)
        shown = self._shown.get(key)
        return shown is not None and shown.status.nominated_node_name == node_name and key not in self._node_names

    def compare(self, key: str, old: Pod, new: Pod) -> None:
        """Forget what was decided about a pod if its new version shows it, or if it is another pod."""
        node_name = self._node_names.get(key)
        if node_name is None:
            return
        is_new = old.metadata.resource_version != new.metadata.resource_version
        if (is_new and new.status.nominated_node_name == node_name) or pod_uid(old) != pod_uid(new):
            del self._node_names[key]

    def end(self, key: str, pod: Pod) -> Pod:
        """Return a pod that the watch shows no more, or on a node, with the nominated node that was decided.

        If that was none, it has the node that the watch shows: no change of the watch will say that it is free.
        """
        node_name = self._node_names.pop(key, "")
        return nominated(pod, node_name) if node_name else pod


def nominated(pod: Pod, node_name: str) -> Pod:
    """Return a pod that is nominated for a node, or for none if the name is empty."""
    return structs.replace(pod, status=structs.replace(pod.status, nominated_node_name=node_name))

"""The pods of this scheduler that the watch shows on no node, whole: what kube-scheduler's pod lister has of them.

kube-scheduler writes a nomination before it attempts the next pod, and the watch soon shows it. Here the write may
wait. A pod that was tried meanwhile without its nominated node would preempt others elsewhere, though its victims are
going. So what was decided about a nomination is kept here until the watch shows it, or it is known that the watch never
will.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import structs

from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.pods import pod_uid


class PodLister:
    """Pods by key, which is namespace/name."""

    def __init__(self) -> None:
        self._by_key: dict[str, Pod] = {}
        # The nominated nodes that the watch does not show yet; "" where a nomination is withdrawn.
        self._decided: dict[str, str] = {}
        # What to call once a pod is not to be scheduled any more.
        self._at_end: dict[str, Callable[[], object]] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Pod]:
        return iter(self._by_key.values())

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    def get(self, key: str) -> Pod | None:
        """Return a pod, None if the watch shows none of that key, or shows it on a node."""
        return self._by_key.get(key)

    def put(self, pod: Pod) -> Pod | None:
        """Add or replace a pod; returns the earlier version."""
        key = pod_name(pod)
        old = self._by_key.get(key)
        self._by_key[key] = pod
        if pod.metadata.deletion_timestamp or (old is not None and pod_uid(old) != pod_uid(pod)):
            self._end(key)
        if old is not None and key in self._decided:
            self._compare_with_decided(key, old, pod)
        return old

    def take(self, key: str) -> Pod | None:
        """Remove a pod, and return it, with the nominated node that was decided.

        If that was none, it has the node that the watch shows: no change of the watch will say that it is free.
        """
        self._end(key)
        pod, decided = self._by_key.pop(key, None), self._decided.pop(key, "")
        return nominated(pod, decided) if pod is not None and decided else pod

    def nominate(self, pod: Pod, node_name: str) -> None:
        """Note that a pod is about to be nominated for a node; an empty name takes its nominated node back."""
        key = pod_name(pod)
        shown = self._by_key.get(key)
        if shown is None or pod_uid(shown) != pod_uid(pod):
            return
        # A node that the watch shows may be that of an earlier write, while a later one is on its way.
        if key in self._decided or shown.status.nominated_node_name != node_name:
            self._decided[key] = node_name

    def forget_nomination(self, key: str, uid: str) -> None:
        """Forget what was decided about a pod's nomination, which the watch will not show: what it shows counts."""
        shown = self._by_key.get(key)
        if shown is not None and pod_uid(shown) == uid:
            self._decided.pop(key, None)

    def as_decided(self, pod: Pod) -> Pod:
        """Return a pod of the watch with the nominated node that was decided for it."""
        node_name = self._decided.get(pod_name(pod))
        return pod if node_name is None else nominated(pod, node_name)

    def shows_nomination(self, pod: Pod, node_name: str) -> bool:
        """Return whether the watch shows that a pod is nominated for a node, and nothing else was decided since."""
        key = pod_name(pod)
        shown = self._by_key.get(key)
        return shown is not None and shown.status.nominated_node_name == node_name and key not in self._decided

    @contextmanager
    def at_end_of(self, key: str, act: Callable[[], object]) -> Iterator[None]:
        """While in this context, call `act` once the watch shows that a pod is gone, is being deleted, or has a node.

        There is one such context at a time for each pod.
        """
        self._at_end[key] = act
        try:
            yield
        finally:
            self._at_end.pop(key, None)

    def _compare_with_decided(self, key: str, old: Pod, new: Pod) -> None:
        """Forget what was decided about a nomination if a new version of the pod shows it, or if it is another pod."""
        is_new = old.metadata.resource_version != new.metadata.resource_version
        is_shown = is_new and new.status.nominated_node_name == self._decided[key]
        if is_shown or pod_uid(old) != pod_uid(new):
            del self._decided[key]

    def _end(self, key: str) -> None:
        act = self._at_end.pop(key, None)
        if act is not None:
            act()


def nominated(pod: Pod, node_name: str) -> Pod:
    """Return a pod that is nominated for a node, or for none if the name is empty."""
    return structs.replace(pod, status=structs.replace(pod.status, nominated_node_name=node_name))

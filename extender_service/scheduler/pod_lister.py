"""The pods of this scheduler that the watch shows on no node, whole: what kube-scheduler's pod lister has of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.pods import pod_uid
from extender_service.scheduler.decided_nominations import DecidedNominations


class PodLister:
    """Pods by key, which is namespace/name, as the watch shows them. `nominations` are those that it does not show."""

    def __init__(self) -> None:
        self._by_key: dict[str, Pod] = {}
        self.nominations = DecidedNominations(self._by_key)
        # What to call once a pod is not to be scheduled any more.
        self._at_end: dict[str, Callable[[], object]] = {}
        # Those that were bound and have ended or gone, which the watch does not show yet.
        self._ended: set[str] = set()

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
        if key in self._at_end and (
            pod.metadata.deletion_timestamp or (old is not None and pod_uid(old) != pod_uid(pod))
        ):
            self._end(key)
        if old is not None:
            self.nominations.compare(key, old, pod)
            if key in self._ended and pod_uid(old) != pod_uid(pod):
                self._ended.remove(key)
        return old

    def note_ended(self, key: str) -> None:
        """Note that a pod was bound, and has ended or gone, though the watch still shows it on no node."""
        self._ended.add(key)

    def note_returned(self, key: str) -> None:
        """Note that a pod is to be scheduled as the watch shows it: a backup of etcd may have brought it back."""
        self._ended.discard(key)

    def has_ended(self, key: str) -> bool:
        """Return whether a pod is known to have ended or gone, though the watch still shows it on no node."""
        return key in self._ended

    def take(self, key: str) -> Pod | None:
        """Remove a pod, and return it as its nominations `end`."""
        if key in self._at_end:
            self._end(key)
        self._ended.discard(key)
        pod = self._by_key.pop(key, None)
        return None if pod is None else self.nominations.end(key, pod)

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

    def _end(self, key: str) -> None:
        self._at_end.pop(key)()

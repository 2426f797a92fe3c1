"""The pods of this scheduler that the watch shows on no node, whole: what kube-scheduler's pod lister has of them."""

from collections.abc import Iterator

from extender_service.kube.types.core import Pod, pod_name


class PodLister:
    """Pods by key, which is namespace/name."""

    def __init__(self) -> None:
        self._by_key: dict[str, Pod] = {}

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
        return old

    def take(self, key: str) -> Pod | None:
        """Remove a pod, and return it."""
        return self._by_key.pop(key, None)

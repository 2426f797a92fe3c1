"""Pods that are created one after the other while a test does something else."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from tests.e2e.support.api import API
from tests.e2e.support.objects import Object


@contextmanager
def being_created(api: API, pods: Iterable[Object], pause_seconds: float = 0.05) -> Iterator[list[Object]]:
    """Create pods until the context ends, or there are no more; the list has those that are created."""
    created: list[Object] = []
    is_over = threading.Event()

    def create() -> None:
        for pod in pods:
            if is_over.wait(pause_seconds):
                break
            created.extend(api.create(pod))

    creating = threading.Thread(target=create)
    creating.start()
    try:
        yield created
    finally:
        is_over.set()
        creating.join()


def bound(api: API) -> dict[str, str]:
    """The node of each bound pod, by the pod's name."""
    pods = api.list_all("Pod", field_selector="spec.nodeName!=")
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods}


def more_are_bound(api: API, more: int) -> Callable[[], bool]:
    """Tells whether so many more pods are bound than now."""
    enough = len(bound(api)) + more
    return lambda: len(bound(api)) >= enough

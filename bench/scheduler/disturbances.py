"""What happens to a cluster while a scheduler binds pods: each runs in a thread, from the first write to the end."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread

from bench.scheduler.api_servers import ApiServer
from bench.workloads import churn as objects_that_come_and_go
from tests.e2e.support.objects import Object

_CHURN_SECONDS = 0.2  # scheduler_perf's interval of 1 s would hardly affect so short a run
_WAKE_SECONDS = 0.2
_ARRIVAL_SECONDS = 0.05
_ROLLING_SECONDS = 0.05

Disturbance = Callable[[ApiServer, Event], None]
"""Changes the cluster until the event is set."""


@contextmanager
def disturbing(server: ApiServer, disturbances: Sequence[Disturbance]) -> Iterator[None]:
    """Run the disturbances, and end them in the end. Raises ExceptionGroup if any of them fails."""
    is_over = Event()
    failures: list[Exception] = []

    def run(disturbance: Disturbance) -> None:
        try:
            disturbance(server, is_over)
        except Exception as error:
            failures.append(error)  # raised below

    threads = [Thread(target=run, args=(disturbance,)) for disturbance in disturbances]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    if failures:
        raise ExceptionGroup("disturbances failed", failures)


def churn(server: ApiServer, is_over: Event) -> None:
    """Create and delete a node, a pod that fits nowhere and a Service, again and again."""
    while not is_over.wait(_CHURN_SECONDS):
        made = objects_that_come_and_go()
        server.create(*made)
        is_over.wait(_CHURN_SECONDS)
        server.delete(*made)


def wake(bound: Object) -> Disturbance:
    """Return a disturbance that deletes a bound pod and creates it again, again and again.

    The end of a bound pod has kube-scheduler try the pods again that found no room.
    """

    def replace(server: ApiServer, is_over: Event) -> None:
        while not is_over.wait(_WAKE_SECONDS):
            server.delete(bound)
            server.create(bound)

    return replace


def arrive(pods: Sequence[Object], pods_a_second: int) -> Disturbance:
    """Return a disturbance that creates the pods at this rate."""

    def create(server: ApiServer, is_over: Event) -> None:
        start, created = time.monotonic(), 0
        while created < len(pods) and not is_over.wait(_ARRIVAL_SECONDS):
            due = min(int((time.monotonic() - start) * pods_a_second), len(pods))
            server.create(*pods[created:due])
            created = due

    return create


def replace_old_pods(old: Sequence[Object], new: Sequence[Object]) -> Disturbance:
    """Return a disturbance that for each bound pod deletes an old one and creates a new one, as a Deployment does."""

    def roll(server: ApiServer, is_over: Event) -> None:
        replaced = 0
        while replaced < len(new) and not is_over.wait(_ROLLING_SECONDS):
            due = min(server.counts().bound, len(new))
            server.delete(*old[replaced:due])
            server.create(*new[replaced:due])
            replaced = due

    return roll

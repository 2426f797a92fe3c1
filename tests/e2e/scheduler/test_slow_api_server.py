"""An API server that is slow or refuses: it delays the pods that it is about, and no others."""

import asyncio
import threading
from collections import Counter

from tests.e2e.support.faulty_proxy import Exchange, FaultyProxy
from tests.e2e.support.objects import node, pod
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.whole_scheduler import start
from tests.e2e.support.waiting import wait_until

PODS = 60
ONE_IN = 10


def is_binding(exchange: Exchange) -> bool:
    return exchange.method == "POST" and exchange.resource == "binding"


def is_status_patch(exchange: Exchange) -> bool:
    return exchange.method == "PATCH" and exchange.resource == "status"


def pod_of(exchange: Exchange) -> str:
    """The name in /api/v1/namespaces/default/pods/NAME/binding or .../status."""
    return exchange.target.split("/")[6]


def is_slow(name: str) -> bool:
    return int(name.removeprefix("p")) % ONE_IN == 0


class SlowForOneInTen:
    """As an admission webhook is that takes long for some pods: until `go_on`."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    async def __call__(self, exchange: Exchange) -> None:
        while is_binding(exchange) and is_slow(pod_of(exchange)) and not self.go_on.is_set():
            await asyncio.sleep(0.01)
        await exchange.pass_on()


class RefusesAtFirst:
    """Refuses the first two bindings of each pod and the first patch of its status, in one of several ways."""

    WAYS = ((429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable"), (504, "Timeout"))

    def __init__(self) -> None:
        self.refused_bindings: Counter[str] = Counter()
        self.refused_patches: set[str] = set()
        self.patched: set[str] = set()

    async def __call__(self, exchange: Exchange) -> None:
        if is_binding(exchange) and self.refused_bindings[pod_of(exchange)] < 2:
            self.refused_bindings[pod_of(exchange)] += 1
            await self._refuse(exchange, self.refused_bindings.total() % len(self.WAYS))
        elif is_status_patch(exchange) and pod_of(exchange) not in self.refused_patches:
            self.refused_patches.add(pod_of(exchange))
            # A patch that timed out is not repeated.
            await self._refuse(exchange, len(self.refused_patches) % (len(self.WAYS) - 1))
        else:
            await exchange.pass_on()
            if is_status_patch(exchange) and exchange.status == 200:
                self.patched.add(pod_of(exchange))

    async def _refuse(self, exchange: Exchange, way: int) -> None:
        code, reason = self.WAYS[way]
        await exchange.refuse(code, reason, {"Retry-After": "1"} if code == 429 else None)


def test_slow_bindings_hold_up_no_others(empty_cluster: ControlPlane) -> None:
    api = empty_cluster.api
    api.create(*(node(f"n{number}") for number in range(3)), *(pod(f"p{number}") for number in range(PODS)))

    def bound() -> set[str]:
        return {found["metadata"]["name"] for found in api.list_all("Pod") if found["spec"].get("nodeName")}

    handler = SlowForOneInTen()
    with FaultyProxy(empty_cluster, handler) as proxy:
        process = start(empty_cluster, name="slow-bindings", kubeconfig=proxy.kubeconfig)
        try:
            wait_until(lambda: len(bound()) >= PODS - PODS // ONE_IN, "the other pods to be bound")
            assert not any(map(is_slow, bound()))
            handler.go_on.set()
            wait_until(lambda: len(bound()) == PODS, "all pods to be bound")
        finally:
            process.kill()
    assert sum(map(is_binding, proxy.exchanges)) == PODS


def test_refusals_that_pass_are_waited_out(empty_cluster: ControlPlane) -> None:
    api = empty_cluster.api
    api.create(*(node(f"n{number}") for number in range(3)), *(pod(f"p{number}") for number in range(PODS)))
    handler = RefusesAtFirst()
    with FaultyProxy(empty_cluster, handler) as proxy:
        process = start(empty_cluster, name="refusals", kubeconfig=proxy.kubeconfig)
        try:

            def all_bound() -> bool:
                return all(found["spec"].get("nodeName") for found in api.list_all("Pod"))

            wait_until(all_bound, "all pods to be bound", timeout_seconds=60)
            process.require_running()
        finally:
            process.kill()
    assert set(handler.refused_bindings.values()) == {2}
    assert handler.refused_patches
    assert handler.patched == handler.refused_patches

"""An API server that is slow or refuses: it delays the pods that it is about, and no others."""

import asyncio
from collections import Counter
from itertools import count

from tests.e2e.support.faulty_proxy import Exchange, FaultyProxy
from tests.e2e.support.objects import node, pod
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.whole_scheduler import start
from tests.e2e.support.waiting import wait_until

PODS = 60
ONE_IN = 10
SLOW_SECONDS = 10.0


def is_binding(exchange: Exchange) -> bool:
    return exchange.method == "POST" and exchange.target.partition("?")[0].endswith("/binding")


def pod_of(exchange: Exchange) -> str:
    """The name in /api/v1/namespaces/default/pods/NAME/binding."""
    return exchange.target.split("/")[6]


def is_slow(name: str) -> bool:
    return int(name.removeprefix("p")) % ONE_IN == 0


async def slow_for_one_in_ten(exchange: Exchange) -> None:
    """As an admission webhook is that takes long for some pods."""
    if is_binding(exchange) and is_slow(pod_of(exchange)):
        await asyncio.sleep(SLOW_SECONDS)
    await exchange.pass_on()


class RefusesAtFirst:
    """Refuses the first two bindings of each pod, in one of several ways, and every second other write."""

    WAYS = ((429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable"), (504, "Timeout"))

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        self._writes = count()

    async def __call__(self, exchange: Exchange) -> None:
        if is_binding(exchange) and self.refused[pod_of(exchange)] < 2:
            self.refused[pod_of(exchange)] += 1
            await self._refuse(exchange, self.refused.total())
        elif exchange.method == "PATCH" and next(self._writes) % 2:
            await self._refuse(exchange, next(self._writes))
        else:
            await exchange.pass_on()

    async def _refuse(self, exchange: Exchange, number: int) -> None:
        code, reason = self.WAYS[number % len(self.WAYS)]
        await exchange.refuse(code, reason, {"Retry-After": "1"} if code == 429 else None)


def test_slow_bindings_hold_up_no_others(empty_cluster: ControlPlane) -> None:
    api = empty_cluster.api
    api.create(*(node(f"n{number}") for number in range(3)), *(pod(f"p{number}") for number in range(PODS)))

    def bound() -> set[str]:
        return {found["metadata"]["name"] for found in api.list_all("Pod") if found["spec"].get("nodeName")}

    with FaultyProxy(empty_cluster, slow_for_one_in_ten) as proxy:
        process = start(empty_cluster, name="slow-bindings", kubeconfig=proxy.kubeconfig)
        try:
            wait_until(lambda: len(bound()) >= PODS - PODS // ONE_IN, "the other pods to be bound")
            assert not any(map(is_slow, bound())), "the other pods waited for the slow ones"
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
    assert set(handler.refused.values()) == {2}

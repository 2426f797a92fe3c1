"""Many pods are bound at once while the API server fails a fifth of all calls."""

import itertools
import os
import random
import re
import signal
import threading
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.e2e.support.api import API
from tests.e2e.support.faulty_proxy import Exchange, FaultyProxy
from tests.e2e.support.objects import Object, node, pod
from tests.e2e.support.placement_rules import violations
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.service import Service
from tests.e2e.support.waiting import wait_until

PODS = 100
NODES = [f"node-{number:02}" for number in range(PODS // 4)]  # of 4 CPUs each: all pods fit, and no pod more
FAILED_SHARE = 0.2
FAULTS = ("conflict", "internal error", "lost answer")


class Faults:
    """Fails a share of all calls but watches, in three ways, some of them after the API server has done its part."""

    def __init__(self) -> None:
        self.of_binds: Counter[str] = Counter()
        self._random = random.Random(5)
        self._faults = itertools.cycle(FAULTS)

    async def __call__(self, exchange: Exchange) -> None:
        if "watch=1" in exchange.target or self._random.random() >= FAILED_SHARE:
            await exchange.pass_on()
            return
        fault = next(self._faults)
        if is_bind(exchange):
            self.of_binds[fault] += 1
        if fault == "conflict":
            await exchange.refuse(409, "Conflict")
        elif fault == "internal error":
            await exchange.refuse(500, "InternalError")
        else:
            await exchange.lose_answer()


class Caller:
    """Gets one pod bound as kube-scheduler does: it asks for a node, binds, and starts again where that fails."""

    def __init__(self, service: Service, api: API, wanted: Object) -> None:
        self.uid = wanted["metadata"]["uid"]
        self.told: list[str] = []
        self._service = service
        self._api = api
        self._pod = wanted

    def get_bound(self, all_have_chosen: threading.Barrier) -> None:
        name = self._chosen_node()
        all_have_chosen.wait()
        while not self._binds(name) and not self._is_bound():
            name = self._chosen_node()

    def _chosen_node(self) -> str:
        """Ask until there is a node: one may still count for a pod of which nobody can tell whether it is bound."""

        def filtered() -> list[str]:
            answer = self._service.call("filter", {"Pod": self._pod, "NodeNames": NODES})
            return answer["NodeNames"] or []

        (name,) = wait_until(filtered, "a node")
        return name

    def _binds(self, name: str) -> bool:
        metadata = self._pod["metadata"]
        args = {"PodName": metadata["name"], "PodNamespace": "default", "PodUID": metadata["uid"], "Node": name}
        if self._service.call("bind", args)["Error"]:
            return False
        self.told.append(name)
        return True

    def _is_bound(self) -> bool:
        """kube-scheduler's watch tells it of bindings that it took for failed."""
        return "nodeName" in self._api.get("Pod", self._pod["metadata"]["name"], namespace="default")["spec"]


def test_every_pod_is_bound_once_and_counts_once(control_plane: ControlPlane, tmp_path: Path) -> None:
    api, faults = control_plane.api, Faults()
    api.create(*(node(name, cpu="4") for name in NODES))
    with FaultyProxy(control_plane) as proxy, Service(tmp_path, proxy.kubeconfig) as service:
        pods = api.create(*(pod(f"web-{number}", requests={"cpu": "1", "memory": "1Gi"}) for number in range(PODS)))
        wait_until(lambda: service.metric("scheduler_scheduler_cache_size", type="nodes") == len(NODES), "the nodes")
        callers = [Caller(service, api, wanted) for wanted in pods]
        proxy.handler = faults
        all_have_chosen = threading.Barrier(PODS, timeout=60)
        with ThreadPoolExecutor(PODS) as pool:
            for done in [pool.submit(caller.get_bound, all_have_chosen) for caller in callers]:
                done.result()
        proxy.handler = Exchange.pass_on
        wait_until(lambda: service.metric("scheduler_scheduler_cache_size", type="assumed_pods") == 0, "the watch")

        stored = {bound["metadata"]["uid"]: bound for bound in api.list_all("Pod")}
        assert len(stored) == PODS
        assert violations(api.list_all("Node"), stored.values()) == []
        for caller in callers:
            assert set(caller.told) <= {stored[caller.uid]["spec"]["nodeName"]}
        # As many Bindings were written as there are pods, and each fault has hit one at least.
        written = [exchange for exchange in proxy.exchanges if is_bind(exchange) and exchange.status == 201]
        assert len({exchange.target for exchange in written}) == len(written) == PODS
        assert set(faults.of_binds) == {*FAULTS}

        assert compared(service) == 0
        assert counted(service) == summed(stored.values())
        assert not [
            line for line in service.log_lines() if re.search("dump: pod .* is (assumed|expected)", line["msg"])
        ]


def is_bind(exchange: Exchange) -> bool:
    return exchange.method == "POST" and exchange.target.endswith("/binding")


def compared(service: Service) -> int:
    """Have the service compare its cache with the API server and write it down; returns the number of differences."""
    os.kill(service.process.pid, signal.SIGUSR2)
    wait_until(lambda: any("dump: tables: " in line["msg"] for line in service.log_lines()), "the dump")
    (found,) = (line["differences"] for line in service.log_lines() if "compared the cache" in line["msg"])
    return int(found)


def counted(service: Service) -> dict[str, tuple[int, int, int]]:
    """What the dump says that pods take of each node: milli-CPUs, bytes of memory, and how many they are."""
    found = {}
    for line in service.log_lines():
        if told := re.match("dump: node ([^:]+): (.*)", line["msg"]):
            amounts = dict(re.findall(r"(\S+) (\d+)/", told[2]))
            found[told[1]] = (int(amounts["cpu_milli"]), int(amounts["memory_bytes"]), int(amounts["pods"]))
    return found


def summed(pods: Iterable[Object]) -> dict[str, tuple[int, int, int]]:
    """The same from the API server's pods, each of which takes one CPU and one GiB."""
    counts = Counter(bound["spec"]["nodeName"] for bound in pods)
    return {name: (count * 1000, count * 2**30, count) for name, count in counts.items()}

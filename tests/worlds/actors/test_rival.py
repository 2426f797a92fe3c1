"""Another pair takes a lease that has expired, binds pods while it leads, and gives the lease up."""

from collections.abc import Callable, Iterable
from typing import Any

from tests.worlds.actors.rival import NAME, Rival
from tests.worlds.actors.small_cluster import SmallCluster
from tests.worlds.api_server.errors import RefusedError
from tests.worlds.api_server.etcd import Change
from tests.worlds.api_server.kinds import LEASES, PODS, Kind
from tests.worlds.api_server.messages import Answer, Request
from tests.worlds.api_server.objects.timestamps import micro_time

LEASE = "kube-system/kube-scheduler"
LEASES_PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
PODS_PATH = "/api/v1/namespaces/default/pods"
AMOUNTS = {"cpu": "64", "memory": "64Gi", "pods": "110"}


class Standby:
    """A rival that stands by for the lease of another scheduler, and a node.

    `holders` are who has held the lease in turn, and from when on; `bound_at` is when each pod was bound.
    """

    def __init__(self, until: float = 1000.0) -> None:
        self.cluster = SmallCluster()
        self.holders: list[tuple[float, str]] = []
        self.bound_at: dict[str, float] = {}
        self.cluster.model.etcd.listeners.append(self._see)
        spec = {"holderIdentity": "replica-0_x", "leaseDurationSeconds": 15, "renewTime": micro_time(0.0)}
        self.cluster.ask("POST", LEASES_PATH, {"metadata": {"name": "kube-scheduler"}, "spec": spec})
        node = {"metadata": {"name": "n"}, "spec": {}, "status": {"allocatable": AMOUNTS}}
        self.cluster.ask("POST", "/api/v1/nodes", node)
        Rival(self.cluster.client(NAME), until).start()

    @property
    def now(self) -> float:
        return self.cluster.world.timeline.now

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.holders]

    def renew(self) -> None:
        """The holder renews the lease."""
        item = self.cluster.model.etcd.get(LEASES, LEASE)
        assert item is not None
        value = item.copy()
        value["spec"]["renewTime"] = micro_time(self.now)
        self.cluster.model.etcd.put(LEASES, LEASE, value)

    def create_pods(self, names: Iterable[str], **spec: Any) -> None:
        containers = [{"name": "c", "image": "i:1"}]
        for name in names:
            pod = {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}
            self.cluster.ask("POST", PODS_PATH, pod)

    def refuse_writes_of_the_lease(self, is_due: Callable[[], bool]) -> None:
        def gate(request: Request, carry_out: Callable[[], Answer]) -> Answer:
            is_refused = request.method == "PUT" and is_due()
            return RefusedError(503, "ServiceUnavailable", "").response() if is_refused else carry_out()

        self.cluster.server.gates.append(gate)

    def _see(self, kind: Kind, change: Change) -> None:
        if change.after is None:
            return
        if kind is LEASES:
            holder = change.after.value["spec"]["holderIdentity"].partition("_")[0]
            if holder not in self.names[-1:]:
                self.holders.append((self.now, holder))
        elif kind is PODS and change.after.value["spec"].get("nodeName"):
            self.bound_at.setdefault(change.after.value["metadata"]["name"], self.now)


def test_takes_the_lease_once_it_has_expired() -> None:
    standby = Standby()
    standby.cluster.run(14.9)
    assert standby.names == ["replica-0"]
    standby.cluster.run(5.6)
    assert standby.names == ["replica-0", NAME]


def test_a_lease_that_is_renewed_stays() -> None:
    standby = Standby()
    for seconds in range(2, 60, 2):
        standby.cluster.world.timeline.call_later(seconds, standby.renew)
    standby.cluster.run(60.0)
    assert standby.names == ["replica-0"]


def test_a_lease_that_is_renewed_while_it_is_taken_stays() -> None:
    standby, tries = Standby(), list[float]()

    def gate(request: Request, carry_out: Callable[[], Answer]) -> Answer:
        if request.method == "PUT":
            tries.append(standby.now)
            standby.renew()
        return carry_out()

    standby.cluster.server.gates.append(gate)
    standby.cluster.run(60.0)
    assert tries
    assert standby.names == ["replica-0"]


def test_leads_for_a_while_and_gives_the_lease_up() -> None:
    standby = Standby()
    standby.cluster.run(70.0)
    assert standby.names[:3] == ["replica-0", NAME, ""]
    (taken_at, _), (given_up_at, _) = standby.holders[1:3]
    assert 20.0 <= given_up_at - taken_at <= 43.0


def test_takes_a_lease_that_was_given_up() -> None:
    standby = Standby()
    standby.cluster.run(120.0)
    assert standby.names[:4] == ["replica-0", NAME, "", NAME]


def test_is_over_at_its_time() -> None:
    standby = Standby(until=30.0)
    standby.cluster.run(40.0)
    standby.create_pods(f"late-{number}" for number in range(20))
    standby.cluster.run(60.0)
    assert standby.names == ["replica-0", NAME, ""]
    assert 30.0 <= standby.holders[-1][0] <= 33.0
    assert standby.bound_at == {}


def test_binds_some_pods_of_the_scheduler_that_has_lost_the_lease() -> None:
    standby = Standby()
    plain = {f"pod-{number}" for number in range(20)}
    standby.create_pods(sorted(plain))
    standby.create_pods([f"of-another-{number}" for number in range(20)], schedulerName="another")
    term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    standby.create_pods([f"apart-{number}" for number in range(20)], affinity=affinity)
    standby.cluster.run(30.0)
    assert standby.names == ["replica-0", NAME]
    bound = {*standby.bound_at}
    assert bound
    assert bound < plain
    # Until then, the service of the holder before may bind.
    assert min(standby.bound_at.values()) >= standby.holders[1][0] + 2.0


def test_binds_no_more_once_the_lease_was_not_renewed_for_long() -> None:
    standby = Standby()
    standby.refuse_writes_of_the_lease(lambda: NAME in standby.names)
    standby.cluster.run(21.0)
    assert standby.names == ["replica-0", NAME]
    standby.create_pods(f"early-{number}" for number in range(20))
    standby.cluster.run(standby.holders[1][0] + 12.0 - standby.now)
    assert standby.bound_at
    bound = {*standby.bound_at}
    standby.create_pods(f"late-{number}" for number in range(20))
    standby.cluster.run(20.0)
    assert standby.names == ["replica-0", NAME]
    assert standby.bound_at.keys() == bound

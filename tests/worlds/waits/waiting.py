"""A pod that waits, and what may happen meanwhile, for tests of excuses."""

from collections.abc import Mapping
from random import Random
from typing import Any, Final, cast

from extender_service.config.rules import rules_of
from extender_service.framework.cycle_state import CycleState
from extender_service.kube.types.core import Affinity, LabelSelector, Pod, PodAffinity, PodAffinityTerm, Taint
from tests.support.clusters.queue_worlds import changed
from tests.support.clusters.scheduler_world import SchedulerWorld
from tests.support.objects import make_node, make_pod
from tests.worlds.api_server.kinds import NAMESPACES, NODES, PODS, Kind
from tests.worlds.api_server.server import ApiServer
from tests.worlds.invariants.insides import SchedulerInsides
from tests.worlds.invariants.ledger import Ledger, LedgerEntry
from tests.worlds.invariants.observed import Observed
from tests.worlds.simulation.process import Process
from tests.worlds.simulation.world import World
from tests.worlds.waits.excuses import Excuses

Object = dict[str, Any]

HOST: Final = "kubernetes.io/hostname"
_TAINT: Final = Taint("gone-soon", effect="NoSchedule")
TOO_LARGE: Final = make_pod("p", requests={"cpu": "2"})


def term(app: str, namespace_selector: LabelSelector | None = None) -> PodAffinityTerm:
    """Return a term that means pods of an app on the same node, in the pod's own namespace unless others are given."""
    return PodAffinityTerm(HOST, LabelSelector({"app": app}), namespace_selector=namespace_selector)


def apart_from(*terms: PodAffinityTerm) -> Pod:
    """Return a pod that is to be apart from others."""
    return changed(TOO_LARGE, affinity=Affinity(pod_anti_affinity=PodAffinity(required=terms)))


def near_to(*terms: PodAffinityTerm) -> Pod:
    """Return a pod that is to be near to others."""
    return changed(make_pod("p"), affinity=Affinity(pod_affinity=PodAffinity(required=terms)))


def anti_affinity(app: str, **more: Any) -> Object:
    """Return, as JSON, that a pod is to be apart from pods of an app: on another node, unless it says more."""
    required = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOST, **more}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [required]}}


BY_LABEL: Final = term("x", LabelSelector({"color": "red"}))
LONELY: Final = near_to(term("none"))


class Leader(SchedulerWorld):
    """A scheduler that leads. `known` is what its watches have shown."""

    is_leading = True
    known: dict[Kind, int]


class Waiting:
    """A pod that a scheduler has tried in vain: for a taint of its only node, or for lack of room.

    Another pod may be given, that does not fit. `rejected_by` names the plugins that rejected it, if not those did.
    Pods are on the nodes `a` and `b`. The pod's namespace is red.
    """

    def __init__(
        self,
        minor: int,
        *,
        is_tainted: bool = False,
        pod: Pod = TOO_LARGE,
        rejected_by: str = "",
        service: Process | None = None,
        gates: Mapping[str, bool] | None = None,
    ) -> None:
        node = make_node("a", {"cpu": "1", "pods": "9"}, taints=[_TAINT] if is_tainted else [])
        self.scheduler = Leader(node, rules=rules_of(minor, gates))
        model = ApiServer(lambda: 0.0, Random(1))
        self.observed = Observed(World(1), model, [cast(Process, self.scheduler)], service)
        self.etcd = self.observed.model.etcd
        self.excuses = Excuses(self.observed)
        self.label_namespace(color="red")
        for name in ("a", "b"):
            self.put_node(name)
            self.put_pod(f"on-{name}", name)
        self.look()
        self.scheduler.create(pod)
        self.scheduler.attempt()
        [entry] = self.scheduler.queue.entries()
        self.info = entry.info
        if rejected_by:
            self.info.unschedulable_plugins = frozenset((rejected_by,))
        self.look()

    def put_pod(
        self,
        name: str,
        node_name: str,
        labels: Object | None = None,
        *,
        affinity: Object | None = None,
        uid: str = "",
        nominated_for: str = "",
    ) -> None:
        """Store a pod, new or changed. Its UID is its name unless given."""
        metadata = {"name": name, "namespace": "default", "uid": uid or name, "labels": labels or {}}
        spec: Object = {"nodeName": node_name, **({} if affinity is None else {"affinity": affinity})}
        status = {"nominatedNodeName": nominated_for} if nominated_for else {}
        self.etcd.put(PODS, f"default/{name}", {"metadata": metadata, "spec": spec, "status": status})

    def put_node(self, name: str, **labels: str) -> None:
        """Store a node, new or changed, with these labels and no others."""
        self.etcd.put(NODES, name, {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {}})

    def mark(self, name: str) -> None:
        """Mark a pod for deletion, which lasts."""
        item = self.etcd.get(PODS, f"default/{name}")
        assert item is not None
        pod = item.copy()
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self.etcd.put(PODS, item.key, pod)

    def label_namespace(self, **labels: str) -> None:
        """Give the pod's namespace these labels, and no others."""
        self.etcd.put(NAMESPACES, "default", {"metadata": {"name": "default", "labels": labels}})

    def look(self, *, sees: bool = True) -> None:
        """Let a second pass, in which the watches show all that is stored, or nothing."""
        if sees:
            self.scheduler.known = dict.fromkeys((NODES, PODS, NAMESPACES), self.etcd.revision)
        self.observed.world.run(self.observed.now + 1.0)
        self.excuses.look()

    def try_again(self, seconds: float = 1.0) -> None:
        """Let the pod come back from another attempt, so many seconds after the one before."""
        self.info.queued_at += seconds
        self.look()

    def is_excused(self, fits_on: str = "a") -> bool:
        """Return whether kube-scheduler would leave the pod waiting, though it fits on a node."""
        return self.excuses.cover(cast(SchedulerInsides, self.scheduler), self.info, [fits_on])

    # What may happen:

    def change(self) -> None:
        """Change node `a`."""
        self.put_node("a", revision=str(self.etcd.revision))

    def grow(self) -> None:
        """Let node `a` have more to allocate."""
        item = self.etcd.get(NODES, "a")
        assert item is not None
        self.etcd.put(NODES, "a", {**item.value, "status": {"allocatable": {"cpu": str(self.etcd.revision)}}})

    def report(self) -> None:
        """Have node `a` report again what it reported before."""
        conditions = [{"type": "Ready", "status": "True", "lastHeartbeatTime": str(self.etcd.revision)}]
        value = {"metadata": {"name": "a"}, "spec": {}, "status": {"conditions": conditions}}
        self.etcd.put(NODES, "a", value)

    def leave(self) -> None:
        """Let the pod on node `a` end."""
        self.etcd.delete(PODS, "default/on-a")

    def leave_another_node(self) -> None:
        """Let the pod on node `b` end."""
        self.etcd.delete(PODS, "default/on-b")

    def unreserve(self, **labels: str) -> None:
        """Let the scheduler give up the place of another pod, which has these labels, on node `a`."""
        pod = changed(make_pod("q"), labels=labels)
        self.excuses._history._note_reservation(LedgerEntry("unreserve", cast(Ledger, None), CycleState(pod), pod, "a"))

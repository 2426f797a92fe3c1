"""A pod that was forgotten, imagined, or put where there is no room for it is reported."""

import json
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any
from unittest.mock import Mock

import pytest

from extender_service.framework.cycle_state import CycleState
from tests.support.objects import cluster_of, make_node, make_pod
from tests.worlds.api_server.kinds import CLAIMS, NODES, PODS, VOLUMES
from tests.worlds.api_server.messages import Request, Response
from tests.worlds.api_server.server import ApiServer
from tests.worlds.faults.plan import Fault
from tests.worlds.invariants.insides import scheduler_insides, service_insides
from tests.worlds.invariants.ledger import Ledger, LedgerEntry
from tests.worlds.invariants.observed import Observed
from tests.worlds.invariants.pods.rooms import RoomKept, VolumesGivenOnce, _Reserved
from tests.worlds.scenarios import Scenario, ScheduledCluster, _node
from tests.worlds.simulation.clocks import MachineClocks
from tests.worlds.simulation.http_face import Served
from tests.worlds.simulation.world import World

Object = dict[str, Any]


def reported(cluster: ScheduledCluster) -> list[str]:
    """What a world reports of rooms, without the times."""
    cluster.run()
    lines = cluster.holds.observed.violations.lines()
    return [line.partition(": ")[2] for line in lines if " room kept: " in line]


def drop_filter(cluster: ScheduledCluster, name: str) -> None:
    """A scheduler does without one of its plugins."""
    insides = scheduler_insides(cluster.replicas[0])
    assert insides is not None
    for profile in insides.engine.profiles:
        profile.filter = tuple(plugin for plugin in profile.filter if plugin.name != name)


def drop_filter_of_service(cluster: ScheduledCluster, name: str) -> None:
    """`serve` does without one of its plugins."""
    assert cluster.service is not None
    insides = service_insides(cluster.service)
    assert insides is not None
    for profile in insides.engine.profiles:
        profile.filter = tuple(plugin for plugin in profile.filter if plugin.name != name)


def change_node(cluster: ScheduledCluster, **spec: object) -> None:
    """The only node gets a taint, or is cordoned."""
    cluster._ask("PATCH", "/api/v1/nodes/node-0", {"spec": spec})


def after_start(cluster: ScheduledCluster, act: Callable[[ScheduledCluster], None]) -> None:
    cluster.world.timeline.call_at(1.5, partial(act, cluster))


def test_nothing_is_reported_where_all_is_well_though_the_node_is_full() -> None:
    assert reported(ScheduledCluster(Scenario(seed=1, minutes=0.5, nodes=1, pods=60))) == []


def test_a_node_that_gets_too_many_pods_is_reported() -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, nodes=1, pods=60))
    after_start(cluster, partial(drop_filter, name="NodeResourcesFit"))
    found = reported(cluster)
    assert "replica-0 reserves node-0 for default/pod-" in found[0]
    assert "too little cpu is left beside" in found[0]
    assert any(line.startswith("replica-0 binds default/pod-") for line in found)


@pytest.mark.parametrize("has_plugin", [True, False])
def test_a_node_that_does_not_have_what_a_pod_requests_is_reported(has_plugin: bool) -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, nodes=1, pods=0))
    if not has_plugin:
        after_start(cluster, partial(drop_filter, name="NodeResourcesFit"))
    container = {"name": "main", "image": "image", "resources": {"requests": {"example.com/gpu": "1"}}}
    cluster.world.timeline.call_at(5.0, partial(cluster._create, "pods", pod("pod-0", containers=[container])))
    found = reported(cluster)
    expected = "replica-0 reserves node-0 for default/pod-0: too little example.com/gpu is left beside 0 pods"
    assert (expected in found) is not has_plugin


def test_a_pod_that_is_forgotten_is_reported() -> None:
    def forget(cluster: ScheduledCluster) -> None:
        insides = scheduler_insides(cluster.replicas[0])
        assert insides is not None
        for key in [*insides.cluster.pod_keys()]:
            insides.cluster.remove_pod(key)

    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, nodes=1, pods=20))
    cluster.world.timeline.call_at(12.0, partial(forget, cluster))
    found = reported(cluster)
    assert found
    assert "does not count, which is there since version" in found[0]


def test_a_pod_that_never_was_is_reported() -> None:
    def imagine(cluster: ScheduledCluster) -> None:
        insides = scheduler_insides(cluster.replicas[0])
        assert insides is not None
        insides.cluster.placements.place(make_pod("ghost"), "uid-of-ghost", "node-0")

    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, nodes=1, pods=20))
    cluster.world.timeline.call_at(12.0, partial(imagine, cluster))
    assert reported(cluster)[0].endswith("default/ghost counts, which is not there")


def test_a_pod_that_failed_and_runs_again_after_all_counts_again() -> None:
    def set_phase(cluster: ScheduledCluster, phase: str) -> None:
        item = cluster.model.etcd.get(PODS, "default/early")
        assert item is not None
        cluster.model.registry.change(PODS, item, lambda pod: pod["status"].update(phase=phase))

    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, nodes=1, pods=0))
    timeline = cluster.world.timeline
    timeline.call_at(2.0, partial(cluster._create, "pods", pod("early", containers=[{"name": "main", "image": "i"}])))
    timeline.call_at(4.0, partial(set_phase, cluster, "Failed"))
    timeline.call_at(6.0, partial(set_phase, cluster, "Running"))
    timeline.call_at(8.0, partial(cluster._create, "pods", pod("late")))
    assert reported(cluster) == []


def test_a_scheduler_knows_only_from_its_watch_that_a_pod_which_it_bound_and_which_failed_runs_again() -> None:
    def set_phase(cluster: ScheduledCluster, phase: str) -> None:
        item = cluster.model.etcd.get(PODS, "default/early")
        assert item is not None
        cluster.model.registry.change(PODS, item, lambda pod: pod["status"].update(phase=phase))

    lags = Fault(5.0, "lag", "api-server", 10.0, 5.0)
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, nodes=1, pods=0, faults=(lags,), api_servers=1))
    timeline = cluster.world.timeline
    timeline.call_at(2.0, partial(cluster._create, "pods", pod("early", containers=[{"name": "main", "image": "i"}])))
    timeline.call_at(4.0, partial(set_phase, cluster, "Failed"))
    timeline.call_at(5.5, partial(cluster._create, "pods", pod("late")))
    timeline.call_at(7.0, partial(set_phase, cluster, "Running"))
    assert reported(cluster) == []
    assert any("/pods/late/binding of replica-0" in line for line in cluster.world.trace.lines)


def pod(name: str, **spec: object) -> Object:
    container = {"name": "main", "image": "image", "ports": [{"containerPort": 80, "hostPort": 80}]}
    whole = {"schedulerName": "default-scheduler", "containers": [container], **spec}
    return {"metadata": {"name": name}, "spec": whole, "status": {"phase": "Pending"}}


@pytest.mark.parametrize("has_plugin", [True, False])
def test_a_port_that_is_given_twice_is_reported(has_plugin: bool) -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, nodes=1, pods=0))
    if not has_plugin:
        after_start(cluster, partial(drop_filter, name="NodePorts"))
    for number in range(2):
        cluster.world.timeline.call_at(5.0 + number, partial(cluster._create, "pods", pod(f"pod-{number}")))
    found = reported(cluster)
    expected = "replica-0 reserves node-0 for default/pod-1: a port of the host is taken"
    assert (expected in found) is not has_plugin


def test_ports_are_for_serve_to_look_at_where_it_decides() -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, nodes=1, pods=0, mode="replace"))
    after_start(cluster, partial(drop_filter_of_service, name="NodePorts"))
    for number in range(2):
        cluster.world.timeline.call_at(5.0 + number, partial(cluster._create, "pods", pod(f"pod-{number}")))
    found = reported(cluster)
    assert found[0] == "service reserves node-0 for default/pod-1: a port of the host is taken"
    assert not any(line.startswith("replica-0 ") for line in found)


@pytest.mark.parametrize(
    ("slow", "asked_at", "before", "after", "has_plugin"),
    [
        ("service/api-server", 5.5, "0", "2", True),  # the watch of the caller is ahead
        ("replica-0/service", 5.1, "2", "0", True),  # the call takes longer than the watch of `serve`
        ("replica-0/service", 5.1, "0", "2", False),
    ],
)
def test_a_node_that_serve_was_sent_whole_has_what_the_caller_has_sent(
    slow: str, asked_at: float, before: str, after: str, has_plugin: bool
) -> None:
    def report(cluster: ScheduledCluster, devices: str) -> None:
        cluster._ask("PATCH", "/api/v1/nodes/node-0/status", {"status": {"allocatable": {"example.com/gpu": devices}}})

    wanted, faults = frozenset(("extenders",)), (Fault(4.0, "slow-network", slow, 10.0, 1.0),)
    cluster = ScheduledCluster(
        Scenario(seed=1, minutes=0.5, nodes=1, pods=0, mode="preempting", wanted=wanted, faults=faults, api_servers=1)
    )
    after_start(cluster, partial(report, devices=before))
    if not has_plugin:
        after_start(cluster, partial(drop_filter_of_service, name="NodeResourcesFit"))
    container = {"name": "main", "image": "image", "resources": {"requests": {"example.com/gpu": "1"}}}
    cluster.world.timeline.call_at(asked_at, partial(cluster._create, "pods", pod("pod-0", containers=[container])))
    cluster.world.timeline.call_at(5.3, partial(report, cluster, after))
    problem = "service reserves node-0 for default/pod-0: too little example.com/gpu is left beside 0 pods"
    assert reported(cluster) == ([] if has_plugin else [problem])
    assert any("/pods/pod-0/binding of service" in line for line in cluster.world.trace.lines)


TAINTS: Object = {"taints": [{"key": "kept", "effect": "NoExecute"}]}
CORDONED: Object = {"unschedulable": True}
TOLERATES: Object = {"tolerations": [{"operator": "Exists"}]}
ALONE: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("node", "spec", "without", "wanted", "problem"),
    [
        ({}, {"nodeSelector": {"disk": "fast"}}, "NodeAffinity", ALONE, "it does not select the node"),
        (TAINTS, {}, "TaintToleration", ALONE, "it does not tolerate a taint of the node"),
        (CORDONED, {}, "NodeUnschedulable", ALONE, "it does not tolerate that the node is cordoned"),
        ({}, {"nodeSelector": {"kubernetes.io/hostname": "node-0"}}, "NodeAffinity", ALONE, ""),
        (TAINTS, TOLERATES, "TaintToleration", ALONE, ""),
        (CORDONED, TOLERATES, "NodeUnschedulable", ALONE, ""),
        (TAINTS, {}, "", ALONE, ""),
        (TAINTS, {}, "TaintToleration", frozenset(("late-extender",)), ""),  # the node may have changed since
    ],
)
def test_a_node_is_reported_that_its_pod_does_not_select_or_tolerate(
    node: Object, spec: Object, without: str, wanted: frozenset[str], problem: str
) -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, nodes=1, pods=0, wanted=wanted))
    after_start(cluster, partial(drop_filter, name=without))
    after_start(cluster, partial(change_node, **node))
    cluster.world.timeline.call_at(5.0, partial(cluster._create, "pods", pod("pod-0", **spec)))
    text = f"replica-0 reserves node-0 for default/pod-0: {problem}"
    assert reported(cluster) == ([text] if problem else [])


def test_a_taint_that_the_watch_of_the_scheduler_has_not_shown_is_not() -> None:
    lags = Fault(5.0, "lag", "api-server", 10.0, 5.0)
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, nodes=1, pods=0, faults=(lags,), api_servers=1))
    cluster.world.timeline.call_at(5.5, partial(cluster._create, "pods", pod("late")))
    cluster.world.timeline.call_at(5.8, partial(change_node, cluster, **TAINTS))
    assert reported(cluster) == []
    assert any("/pods/late/binding of replica-0" in line for line in cluster.world.trace.lines)


@pytest.mark.parametrize("is_listing", [True, False])
def test_nor_one_that_a_list_no_longer_has_which_the_scheduler_is_taking_in(
    is_listing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, nodes=1, pods=0))

    def version_before(rule: RoomKept, _: Ledger) -> tuple[int, int]:
        node = rule._etcd.get(NODES, "node-0")
        assert node is not None
        return rule._etcd.revision, node.revision - is_listing

    monkeypatch.setattr(RoomKept, "_known_versions", version_before)
    after_start(cluster, partial(drop_filter, name="TaintToleration"))
    for at in (3.0, 4.0):
        cluster.world.timeline.call_at(at, partial(change_node, cluster, podCIDR=f"10.{at:.0f}.0.0/24", **TAINTS))
    cluster.world.timeline.call_at(5.0, partial(cluster._create, "pods", pod("pod-0")))
    assert (reported(cluster) == []) is is_listing


@pytest.mark.parametrize("has_plugin", [True, False])
def test_a_claim_for_one_pod_that_is_given_to_two_is_reported(has_plugin: bool) -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, nodes=1, pods=0))
    put_claim(cluster.model, "data", "disk")
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOncePod"], "hostPath": {"path": "/x"}}
    volume["claimRef"] = {"namespace": "default", "name": "data", "uid": "data"}
    cluster.model.etcd.put(VOLUMES, "disk", {"metadata": {"name": "disk"}, "spec": volume, "status": {}})
    if not has_plugin:
        after_start(cluster, partial(drop_filter, name="VolumeRestrictions"))
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    for number in range(2):
        thing = pod(f"pod-{number}", volumes=volumes, containers=[{"name": "main", "image": "image"}])
        cluster.world.timeline.call_at(5.0 + number, partial(cluster._create, "pods", thing))
    found = reported(cluster)
    expected = "the claim default/data is for one pod, and default/pod-0 on node-0 has it"
    assert any(line.endswith(expected) for line in found) is not has_plugin


def test_a_claim_for_one_pod_is_free_once_the_node_of_its_pod_is_gone() -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, nodes=2, pods=0))
    put_claim(cluster.model, "data", "disk")
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOncePod"], "hostPath": {"path": "/x"}}
    volume["claimRef"] = {"namespace": "default", "name": "data", "uid": "data"}
    cluster.model.etcd.put(VOLUMES, "disk", {"metadata": {"name": "disk"}, "spec": volume, "status": {}})
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]

    def node_of(name: str) -> str:
        item = cluster.model.etcd.get(PODS, f"default/{name}")
        assert item is not None
        return str(item.value["spec"].get("nodeName", ""))

    def remove_its_node() -> None:
        cluster.model.etcd.delete(NODES, node_of("pod-0"))

    for number in range(2):
        thing = pod(f"pod-{number}", volumes=volumes, containers=[{"name": "main", "image": "image"}])
        cluster.world.timeline.call_at(5.0 + number, partial(cluster._create, "pods", thing))
    cluster.world.timeline.call_at(8.0, remove_its_node)
    cluster.world.timeline.call_at(9.0, partial(cluster._create, "nodes", _node("node-2")))
    assert reported(cluster) == []
    assert node_of("pod-1")


def test_a_drawn_world_with_shared_claims_has_one_for_one_pod_that_two_want() -> None:
    wanted = frozenset(("volumes", "shared-claims"))
    cluster = ScheduledCluster(Scenario(seed=3, minutes=3.0, nodes=3, pods=60, has_others=True, wanted=wanted))
    after_start(cluster, partial(drop_filter, name="VolumeRestrictions"))
    assert any(" is for one pod, and " in line for line in reported(cluster))


def put_claim(model: ApiServer, name: str, volume: str) -> None:
    annotations = {"pv.kubernetes.io/bind-completed": "yes"}
    metadata = {"name": name, "namespace": "default", "uid": name, "annotations": annotations}
    spec = {"volumeName": volume, "accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "1Gi"}}}
    model.etcd.put(CLAIMS, f"default/{name}", {"metadata": metadata, "spec": spec, "status": {"phase": "Bound"}})


class SmallStore:
    """Two pods on a node that has room for one, and no program."""

    def __init__(self) -> None:
        world = World(1)
        self.model = ApiServer(MachineClocks(world.timeline).wall, Random(1))
        self.observed = Observed(world, self.model, [])
        self.rule = RoomKept(self.observed)
        self.node_version = self.put_node("1")
        self.pod_version = self.put_pod("default/a")
        self.put_pod("default/b")
        self.asked_cpu = "700m"

    def put(self, kind: Any, key: str, rest: Object) -> int:
        name = key.rpartition("/")[2]
        metadata = {"name": name, "namespace": "default", "uid": name}
        return self.model.etcd.put(kind, key, {"metadata": metadata, "spec": {}, **rest}).revision

    def put_pod(self, key: str, cpu: str = "700m", node: str = "node", phase: str = "Pending") -> int:
        spec = {"nodeName": node, "containers": [{"resources": {"requests": {"cpu": cpu}}}]}
        return self.put(PODS, key, {"spec": spec, "status": {"phase": phase}})

    def put_node(self, cpu: str, **spec: object) -> int:
        return self.put(NODES, "node", {"spec": spec, "status": {"allocatable": {"cpu": cpu, "pods": "10"}}})

    def reserve(self, uid: str, *, knew_pod: bool = True, node: str = "node", at: float = 0.0) -> None:
        """Note that a scheduler has reserved a node, with pod a known there or not."""
        known = frozenset({"a"} if knew_pod else ())
        containers = [{"resources": {"requests": {"cpu": self.asked_cpu}}}]
        asked = {"spec": {"containers": containers}}
        reserved = _Reserved(at, f"default/{uid}", asked, node, known, self.pod_version, self.node_version)
        self.rule._reserved["replica-0", uid] = reserved

    def bind(self, *, knew_pod: bool = True, node: str = "node", uid: str = "b", reserved_at: float = 0.0) -> list[str]:
        """What is said of a binding of b, which was decided on with a known or not."""
        self.reserve("b", knew_pod=knew_pod, node=node, at=reserved_at)
        return self.see_binding(uid)

    def see_binding(self, uid: str = "b") -> list[str]:
        """What is said of a binding of b, once it is answered."""
        body = json.dumps({"metadata": {"name": "b", "uid": uid}}).encode()
        request = Request("POST", "/api/v1/namespaces/default/pods/b/binding", {}, {}, body)
        self.rule._see_binding(Served("replica-0", 0.0, request, Response(201, b"")))
        return self.observed.violations.lines()


def test_the_api_server_shows_too_much_on_a_node_for_what_its_scheduler_knew() -> None:
    text = "replica-0 binds default/b to node: too little cpu is left beside 1 pods"
    assert SmallStore().bind() == [f"0.000000 room kept: {text}"]


def test_a_pod_that_its_scheduler_could_not_know_excuses_it() -> None:
    assert SmallStore().bind(knew_pod=False) == []


@pytest.mark.parametrize(("cpu_before", "is_excused"), [("1", False), ("2", True)])
def test_so_does_a_node_that_had_more_then_and_not_one_that_was_cordoned(cpu_before: str, is_excused: bool) -> None:
    store = SmallStore()
    store.node_version = store.put_node(cpu_before)
    store.put_node("1", unschedulable=True)
    assert (store.bind() == []) is is_excused


@pytest.mark.parametrize(("cpu_before", "is_excused"), [("700m", False), ("200m", True)])
def test_so_does_a_pod_that_requested_less_then_and_not_one_that_runs_since(cpu_before: str, is_excused: bool) -> None:
    store = SmallStore()
    store.pod_version = store.put_pod("default/a", cpu_before)
    store.put_pod("default/a", phase="Running")
    assert (store.bind() == []) is is_excused


@pytest.mark.parametrize(("asked_cpu", "is_excused"), [("700m", False), ("300m", True)])
def test_so_does_the_pod_itself_where_it_requested_less_then(asked_cpu: str, is_excused: bool) -> None:
    store = SmallStore()
    store.asked_cpu = asked_cpu
    assert (store.bind() == []) is is_excused


def test_nor_does_a_history_that_is_compacted_show_what_it_knew() -> None:
    store = SmallStore()
    store.model.etcd.compact(store.model.etcd.revision)
    assert store.bind() == []


def test_another_node_than_the_reserved_one_is_reported() -> None:
    text = "replica-0 binds default/b to node, and reserved other"
    assert SmallStore().bind(node="other") == [f"0.000000 room kept: {text}"]


def test_a_binding_that_was_sent_before_the_pod_was_reserved_again_may_come_late() -> None:
    assert SmallStore().bind(node="other", reserved_at=1.0) == []


def test_the_late_answer_to_the_binding_of_a_pod_that_was_made_again_says_nothing_of_the_new_one() -> None:
    assert SmallStore().bind(uid="b before") == []


def ledger_on(store: SmallStore, own: dict[str, str]) -> Mock:
    """The plugin of a scheduler that knows one node, and has reserved some for pods."""
    cluster = cluster_of([make_node("node", {"cpu": "1", "pods": "10"})])
    ledger = Mock(Ledger, who="replica-0", handle=Mock(cluster=cluster))
    store.rule._own[ledger] = own
    return ledger


def reserving(store: SmallStore, uid: str, ledger: Mock | None = None, cpu: str = "700m") -> list[str]:
    """What is said where b is reserved beside a, by a scheduler that has known nothing else of the node."""
    ledger = ledger or ledger_on(store, {})
    pod = make_pod("b", uid=uid, requests={"cpu": cpu})
    entry = LedgerEntry("reserve", ledger, CycleState(pod), pod, "node")
    return [*store.rule._problems(entry, store.rule._own[ledger], {"a": "default/a"}, 0)]


def with_one_reserved(store: SmallStore, uid: str = "c") -> Mock:
    """A scheduler that has reserved the node for c, too, which waits in the API server, and does not count there."""
    store.put_pod("default/c", node="")
    store.reserve(uid)
    return ledger_on(store, {uid: "node"})


FORGOTTEN = "default/c does not count, for which this scheduler has reserved the node"


def test_a_pod_is_reported_for_which_a_scheduler_has_reserved_a_node_where_it_does_not_count() -> None:
    store = SmallStore()
    assert reserving(store, "b before", with_one_reserved(store)) == [FORGOTTEN]


def delete_c(store: SmallStore) -> None:
    store.model.etcd.delete(PODS, "default/c")


def end_c(store: SmallStore) -> None:
    store.put_pod("default/c", node="", phase="Failed")


def bind_c_elsewhere(store: SmallStore) -> None:
    store.put_pod("default/c", node="other")


def restore_etcd(store: SmallStore) -> None:
    store.model.etcd.restore(store.model.etcd.save(), bump_revision=1000)


@pytest.mark.parametrize("act", [delete_c, end_c, bind_c_elsewhere, restore_etcd])
def test_it_need_not_count_once_it_has_ended_or_is_elsewhere_nor_what_was_reserved_before_etcd_was_restored(
    act: Callable[[SmallStore], None],
) -> None:
    store = SmallStore()
    ledger = with_one_reserved(store)
    act(store)
    assert reserving(store, "b before", ledger) == []


def test_nor_need_a_pod_count_that_was_given_back_or_made_again_or_has_another_node_or_is_reserved_again() -> None:
    store = SmallStore()
    ledger = with_one_reserved(store)
    now: list[dict[str, str]] = [{}, {"c": "other"}]
    for own in now:
        store.rule._own[ledger] = own
        assert reserving(store, "b before", ledger) == []
    assert reserving(store, "b before", with_one_reserved(store, "c before")) == []
    assert reserving(store, "c", with_one_reserved(store)) == []


@pytest.mark.parametrize("has_reserved", [True, False])
def test_too_much_on_a_node_is_not_excused_by_a_pod_for_which_the_scheduler_had_reserved_it(
    has_reserved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SmallStore()
    store.model.etcd.delete(PODS, "default/a")
    ledger = with_one_reserved(store)
    if not has_reserved:
        store.rule._own[ledger].clear()
    monkeypatch.setattr(store.rule, "_known_versions", lambda _: (store.pod_version, store.node_version))
    pod = make_pod("b", uid="b", requests={"cpu": "700m"})
    store.rule._note(LedgerEntry("reserve", ledger, CycleState(pod), pod, "node"))
    store.put_pod("default/c")
    found = [line.partition(": ")[2] for line in store.see_binding()]
    too_much = "replica-0 binds default/b to node: too little cpu is left beside 1 pods"
    forgotten = f"replica-0 reserves node for default/b: {FORGOTTEN}"
    assert found == ([forgotten, too_much] if has_reserved else [])


def test_a_node_that_neither_the_watch_nor_the_caller_shows_is_looked_at_for_the_pods_that_count_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = SmallStore()
    ledger = ledger_on(store, {})
    cluster = ledger.handle.cluster
    monkeypatch.setattr(store.rule, "_known_versions", lambda _: (store.pod_version, store.node_version))
    pod = make_pod("b", uid="b", requests={"cpu": "700m"})
    store.rule._note(LedgerEntry("reserve", ledger, CycleState(pod), pod, "new"))
    assert store.observed.violations.lines() == []
    cluster.placements.place(make_pod("ghost"), "uid-of-ghost", "new")
    store.rule._note(LedgerEntry("reserve", ledger, CycleState(pod), pod, "new"))
    text = "replica-0 reserves new for default/b: default/ghost counts, which is not there"
    assert store.observed.violations.lines() == [f"0.000000 room kept: {text}"]


def test_a_pod_that_was_made_again_under_its_name_is_not_judged_for_the_one_before() -> None:
    assert reserving(SmallStore(), "b") == ["too little cpu is left beside 1 pods"]
    assert reserving(SmallStore(), "b before") == []


@pytest.mark.parametrize(("stored", "asked", "fits"), [("700m", "300m", True), ("300m", "700m", False)])
def test_a_pod_requests_what_its_scheduler_was_asked_about_whatever_etcd_went_back_to(
    stored: str, asked: str, fits: bool
) -> None:
    store = SmallStore()
    store.put_pod("default/b", cpu=stored)
    assert reserving(store, "b", cpu=asked) == ([] if fits else ["too little cpu is left beside 1 pods"])


def test_nor_do_pods_that_were_made_again_under_theirs_count_for_those_before() -> None:
    store = SmallStore()
    store.model.etcd.delete(PODS, "default/a")
    containers = [{"resources": {"requests": {"cpu": "700m"}}}]
    metadata = {"name": "a", "namespace": "default", "uid": "a later"}
    store.model.etcd.put(PODS, "default/a", {"metadata": metadata, "spec": {"containers": containers}, "status": {}})
    assert [*store.rule._as_known({"a later": "default/a"}, 0)] != []
    assert [*store.rule._as_known({"a": "default/a"}, 0)] == []
    assert [*store.rule._as_known({"a": "default/a"}, store.pod_version)] != []


@pytest.mark.parametrize("has_left", [True, False])
def test_a_claim_for_one_pod_is_taken_by_a_pod_of_its_own_unless_that_had_left_before(has_left: bool) -> None:
    store = SmallStore()
    put_claim(store.model, "data", "disk")
    ledger = Mock(Ledger, handle=Mock(cluster=cluster_of([make_node("node")])))
    store.rule._own[ledger] = {"a": "node"}
    spec = {"nodeName": "node", "volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]}
    for phase in ("Failed", "Running") if has_left else ("Running",):
        store.put(PODS, "default/a", {"spec": spec, "status": {"phase": phase}})
    wanted = {"metadata": {"namespace": "default", "uid": "b"}, "spec": spec}
    found = [*store.rule._shared_claims(wanted, ledger, 0)]
    assert found == ([] if has_left else ["the claim default/data is for one pod, and default/a on node has it"])


def test_a_volume_that_goes_to_a_second_claim_is_reported() -> None:
    world = World(1)
    model = ApiServer(MachineClocks(world.timeline).wall, Random(1))
    observed = Observed(world, model, [])
    VolumesGivenOnce(observed)
    put_claim(model, "one", "disk")
    put_claim(model, "one", "disk")
    assert observed.violations.lines() == []
    put_claim(model, "two", "disk")
    for name in ("one", "two"):
        reference = {"namespace": "default", "name": name}
        model.etcd.put(VOLUMES, "disk", {"metadata": {"name": "disk"}, "spec": {"claimRef": reference}})
    assert [line.partition(": ")[2] for line in observed.violations.lines()] == [
        "claim default/two has volume disk, and so has default/one",
        "volume disk was for default/one, and is for default/two now",
    ]

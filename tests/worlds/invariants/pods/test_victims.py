"""A victim that may not be one is reported, as is a pod that is deleted and was no victim."""

from collections.abc import Collection
from typing import Any

import msgspec
import pytest

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.interface import PostFilterResult
from extender_service.framework.preemption import dry_run
from extender_service.kube.types.core import Pod
from extender_service.plugins import default_preemption
from extender_service.plugins.default_preemption import DefaultPreemption
from extender_service.scheduling.eviction import Evictions, Victim
from tests.worlds.api_server.messages import Request, Response
from tests.worlds.invariants.pods.victims import VictimsChosen
from tests.worlds.scenarios import Mode, Scenario, ScheduledCluster
from tests.worlds.simulation.http_face import Served

MODES: tuple[Mode | None, ...] = (None, "replace", "preempting")


def crowded(mode: Mode | None = None) -> ScheduledCluster:
    """Two nodes, on which some forty of the pods have room; a quarter of all have a higher priority."""
    return ScheduledCluster(Scenario(seed=1, minutes=0.5, nodes=2, pods=60, mode=mode))


def reported(cluster: ScheduledCluster) -> list[str]:
    """What a world reports of victims, without the times."""
    cluster.run()
    lines = cluster.holds.observed.violations.lines()
    return [line.partition(": ")[2] for line in lines if " victims chosen: " in line]


def rule_of(cluster: ScheduledCluster) -> VictimsChosen:
    (rule,) = (rule for rule in cluster.holds._always if isinstance(rule, VictimsChosen))
    return rule


@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_reported_where_all_is_well_though_pods_make_room(mode: Mode | None) -> None:
    cluster = crowded(mode)
    assert reported(cluster) == []
    assert rule_of(cluster)._evicted


@pytest.mark.parametrize("mode", MODES)
def test_a_victim_of_the_same_priority_is_reported(mode: Mode | None, monkeypatch: pytest.MonkeyPatch) -> None:
    lower_pods = dry_run._lower_pods

    def lower_or_equal_pods(cluster: Cluster, pod: Pod, nodes: NodeView, given: Collection[int]) -> Any:
        spec = msgspec.structs.replace(pod.spec, priority=pod.spec.priority + 1)
        return lower_pods(cluster, msgspec.structs.replace(pod, spec=spec), nodes, given)

    monkeypatch.setattr(dry_run, "_lower_pods", lower_or_equal_pods)
    found = reported(crowded(mode))
    assert any(line.endswith(", whose priority is 0, and not higher than 0") for line in found), found


@pytest.mark.parametrize("mode", [None, "preempting"])
def test_a_victim_on_another_node_is_reported(mode: Mode | None, monkeypatch: pytest.MonkeyPatch) -> None:
    post_filter = DefaultPreemption.post_filter

    def post_filter_elsewhere(*arguments: Any) -> PostFilterResult:
        result = post_filter(*arguments)
        other = {"node-0": "node-1", "node-1": "node-0"}.get(result.node_name, "")
        return msgspec.structs.replace(result, node_name=other)

    monkeypatch.setattr(DefaultPreemption, "post_filter", post_filter_elsewhere)
    found = reported(crowded(mode))
    assert found
    assert all(line.endswith(", where it does not count") for line in found), found


@pytest.mark.parametrize("looks", [True, False])
def test_victims_of_a_pod_that_may_not_preempt_others_are_reported(
    looks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = crowded()
    create = cluster._create

    def create_polite(plural: str, thing: dict[str, Any]) -> None:
        create(plural, {**thing, "preemptionPolicy": "Never"} if plural == "priorityclasses" else thing)

    monkeypatch.setattr(cluster, "_create", create_polite)
    if not looks:
        monkeypatch.setattr(default_preemption, "ineligible", lambda *_: None)
    found = reported(cluster)
    assert bool(found) is not looks
    assert all(line.endswith(", which may not preempt others") for line in found), found


def test_an_eviction_of_another_pod_than_the_chosen_one_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def others(_: Evictions, victims: Collection[Victim]) -> list[Victim]:
        return [msgspec.structs.replace(victim, uid="another") for victim in victims]

    monkeypatch.setattr(Evictions, "to_evict", others)
    found = reported(crowded())
    assert found
    assert all(line.endswith(", and had not chosen it for that") for line in found), found


@pytest.mark.parametrize("uid", ["chosen", "another", ""])
def test_a_deletion_of_a_pod_that_was_not_evicted_is_reported(uid: str) -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, pods=0))
    rule = rule_of(cluster)
    rule._evicted.add(("replica-0", "chosen"))
    body = msgspec.json.encode({"preconditions": {"uid": uid}}) if uid else b""
    request = Request("DELETE", "/api/v1/namespaces/default/pods/pod-1", {}, {}, body)
    rule._check(Served("kubelet-node-0", 0.0, request, Response(200, b"")))
    rule._check(Served("replica-0", 0.0, request, Response(200, b"")))
    found = cluster.holds.observed.violations.lines()
    text = "0.000000 victims chosen: replica-0 deletes default/pod-1, which it does not evict"
    assert found == ([] if uid == "chosen" else [text])

from typing import Any

import msgspec
import pytest

from extender_service.config.rules import DEFAULT_RULES
from extender_service.kube.types.core import Affinity, LabelSelector, PodAffinity, PodAffinityTerm
from extender_service.queue.queued_pod import QueuedPodInfo
from extender_service.queue.unschedulable_pods import UnschedulablePods
from tests.support.clusters.queue_worlds import SCHEDULER, queue_pod


def info(name: str, *plugins: str, gated: bool = False, **spec: Any) -> QueuedPodInfo:
    pod = queue_pod(name, **spec)
    gate = plugins[0] if gated else ""
    return QueuedPodInfo(pod, 0.0, f"default/{name}", unschedulable_plugins=frozenset(plugins), gating_plugin=gate)


def names(infos: list[QueuedPodInfo]) -> list[str]:
    return sorted(found.pod.metadata.name for found in infos)


def near_app(app: str) -> dict[str, Any]:
    term = PodAffinityTerm(topology_key="zone", label_selector=LabelSelector({"app": app}))
    return {"affinity": Affinity(pod_affinity=PodAffinity(required=(term,)))}


@pytest.fixture
def pods() -> UnschedulablePods:
    return UnschedulablePods({SCHEDULER}, DEFAULT_RULES)


def test_an_event_meets_the_pods_that_its_plugins_rejected(pods: UnschedulablePods) -> None:
    pods.add_or_update(info("a", "Fit"))
    pods.add_or_update(info("b", "Fit", "Taints"))
    pods.add_or_update(info("c", "Taints"))
    assert names(pods.rejected_by(["Fit"])) == ["a", "b"]
    assert names(pods.rejected_by(["Fit", "Taints"])) == ["a", "b", "c"]
    assert names(pods.rejected_by(["Ports"])) == []


def test_every_event_meets_pods_that_no_plugin_rejected_or_of_an_unknown_profile(pods: UnschedulablePods) -> None:
    pods.add_or_update(info("a"))
    of_other_profiles = UnschedulablePods({"other"}, DEFAULT_RULES)
    of_other_profiles.add_or_update(info("b", "Fit"))
    assert names(pods.rejected_by([])) == ["a"]
    assert names(of_other_profiles.rejected_by([])) == ["b"]


def test_a_pod_that_is_rejected_by_others_now_is_found_by_those(pods: UnschedulablePods) -> None:
    pod = info("a", "Fit")
    pods.add_or_update(pod)
    pod.unschedulable_plugins = frozenset({"Taints"})
    pods.add_or_update(pod)
    assert names(pods.rejected_by(["Fit"])) == []
    assert names(pods.rejected_by(["Taints"])) == ["a"]


def test_no_event_meets_a_pod_with_a_gate_of_its_own(pods: UnschedulablePods) -> None:
    pods.add_or_update(info("a", "SchedulingGates", gated=True))
    pods.add_or_update(info("b", "Holding", gated=True))
    assert names(pods.rejected_by(["SchedulingGates", "Holding"])) == ["b"]


def test_a_new_pod_on_a_node_concerns_pods_with_terms_that_select_it(pods: UnschedulablePods) -> None:
    pods.add_or_update(info("a", "InterPodAffinity", **near_app("web")))
    pods.add_or_update(info("b", "InterPodAffinity", **near_app("db")))
    pods.add_or_update(info("c", "Fit"))
    assert names(pods.near(queue_pod("new", labels={"app": "web"}), {})) == ["a"]


def test_a_new_pod_on_a_node_concerns_pods_of_its_namespace_that_spread(pods: UnschedulablePods) -> None:
    pods.add_or_update(info("a", "PodTopologySpread"))
    new = queue_pod("new")
    elsewhere = msgspec.structs.replace(new, metadata=msgspec.structs.replace(new.metadata, namespace="other"))
    assert names(pods.near(new, {})) == ["a"]
    assert names(pods.near(elsewhere, {})) == []


def test_what_is_removed_leaves_nothing_in_the_indexes(pods: UnschedulablePods) -> None:
    for number in range(10):
        pods.add_or_update(info(f"p{number}", "PodTopologySpread", **near_app("web")))
    for number in range(10):
        pods.remove(f"default/p{number}", gated=False)
        pods.remove(f"default/p{number}", gated=False)
    assert len(pods) == 0
    assert (pods._by_plugin, pods._spread_in, pods._by_terms, pods._under, pods._terms_of) == ({}, {}, {}, {}, {})
    assert (pods.unschedulable_count, pods.gated_count) == (0, 0)


def test_counts_are_by_gate(pods: UnschedulablePods) -> None:
    pods.add_or_update(info("a", "Fit"))
    pods.add_or_update(info("b", "SchedulingGates", gated=True))
    assert (pods.unschedulable_count, pods.gated_count) == (1, 1)

"""Preemption: victims, budgets, nominations, and what becomes of them."""

from typing import Any

from tests.e2e.scheduler.side_by_side.steps import (
    Scenario,
    allow_disruptions,
    budget,
    change,
    create,
    delete,
    end,
    priority_class,
)
from tests.e2e.support.objects import Object, node, pod

_GRACE = {"terminationGracePeriodSeconds": 600}
_CLASSES = create(
    priority_class("low", 10),
    priority_class("middle", 50),
    priority_class("high", 100),
    priority_class("top", 1000),
    priority_class("polite", 500, preemptionPolicy="Never"),
)


def _of(priority: str, name: str, cpu: str = "1", **facts: Any) -> Object:
    return pod(name, requests={"cpu": cpu}, priorityClassName=priority, **facts)


def _graceful(priority: str, name: str, cpu: str = "1", **facts: Any) -> Object:
    return _of(priority, name, cpu, **_GRACE, **facts)


def _on(name: str) -> dict[str, str]:
    return {"kubernetes.io/hostname": name}


def a_victim_goes_at_once() -> Scenario:
    return Scenario([_CLASSES, create(node("a", cpu="1")), create(_of("low", "victim")), create(_of("high", "p"))])


def a_victim_takes_its_time() -> Scenario:
    return Scenario(
        [
            _CLASSES,
            create(node("a", cpu="1")),
            create(_graceful("low", "victim")),
            create(_of("high", "p")),
            end("victim"),
        ]
    )


def the_least_important_victim_goes() -> Scenario:
    return Scenario(
        [
            _CLASSES,
            create(node("a", cpu="1"), node("b", cpu="1"), node("c", cpu="1")),
            create(_graceful("middle", "middle", nodeSelector=_on("a"))),
            create(_graceful("low", "low", nodeSelector=_on("b"))),
            create(_graceful("top", "top", nodeSelector=_on("c"))),
            create(_of("high", "p")),
            end("low"),
        ]
    )


def as_few_victims_as_possible() -> Scenario:
    return Scenario(
        [
            _CLASSES,
            create(node("a", cpu="4")),
            create(_graceful("low", "small", "1")),
            create(_graceful("low", "large", "2")),
            create(_graceful("middle", "middle", "1")),
            create(_of("high", "p", "2")),
            end("small"),
            end("large"),
        ]
    )


def nothing_to_displace() -> Scenario:
    return Scenario(
        [
            _CLASSES,
            create(node("a", cpu="1")),
            create(_of("high", "running")),
            create(_of("high", "equal")),
            create(_of("low", "lower")),
        ]
    )


def displacing_would_not_help() -> Scenario:
    return Scenario(
        [
            _CLASSES,
            create(node("a", cpu="1"), node("b", cpu="1")),
            create(_of("low", "running")),
            create(_of("high", "elsewhere", nodeSelector={"disk": "ssd"})),
            create(_of("high", "too-big", "2")),
        ]
    )


def a_polite_pod_waits() -> Scenario:
    return Scenario(
        [
            _CLASSES,
            create(node("a", cpu="1")),
            create(_of("low", "running")),
            create(_of("polite", "p")),
            delete("Pod", "running"),
        ]
    )


def budgets_steer_away() -> Scenario:
    return Scenario(
        [
            _CLASSES,
            create(node("a", cpu="1"), node("b", cpu="1"), budget("protected", {"app": "protected"})),
            allow_disruptions("protected", 0),
            create(_graceful("low", "protected", labels={"app": "protected"}, nodeSelector=_on("a"))),
            create(_graceful("middle", "plain", nodeSelector=_on("b"))),
            create(_of("high", "p")),
            end("plain"),
        ]
    )


def budgets_are_broken_where_nothing_else_helps() -> Scenario:
    return Scenario(
        [
            _CLASSES,
            create(node("a", cpu="1"), budget("protected", {"app": "protected"})),
            allow_disruptions("protected", 0),
            create(_of("low", "protected", labels={"app": "protected"})),
            create(_of("high", "p")),
        ]
    )


def a_host_port_is_taken_back() -> Scenario:
    return Scenario(
        [
            _CLASSES,
            create(node("a"), node("b")),
            create(pod("holder-a", host_ports=[80], priorityClassName="top", nodeSelector=_on("a"))),
            create(
                pod(
                    "holder-b",
                    host_ports=[80],
                    priorityClassName="low",
                    nodeSelector=_on("b"),
                    terminationGracePeriodSeconds=600,
                )
            ),
            create(pod("p", host_ports=[80], priorityClassName="high")),
            end("holder-b"),
        ]
    )


def a_noisy_neighbour_goes() -> Scenario:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "noisy"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return Scenario(
        [
            _CLASSES,
            create(node("a")),
            create(_graceful("low", "noisy", labels={"app": "noisy"})),
            create(_of("high", "p", affinity=apart)),
            end("noisy"),
        ]
    )


def another_node_is_free_before_the_victim_is_gone() -> Scenario:
    return Scenario(
        [
            _CLASSES,
            create(node("a", cpu="1")),
            create(_graceful("low", "victim")),
            create(_of("high", "p")),
            create(node("b", cpu="1")),
            create(_of("low", "next")),
            end("victim"),
        ]
    )


def room_is_kept_from_less_important_pods() -> Scenario:
    return Scenario(
        [
            _CLASSES,
            create(node("a", cpu="2")),
            create(_graceful("low", "victim", "2")),
            create(_of("high", "p", "2")),
            create(_of("middle", "rival", "2")),
            end("victim"),
        ]
    )


def a_more_important_pod_takes_the_room() -> Scenario:
    return Scenario(
        [
            _CLASSES,
            create(node("a", cpu="2")),
            create(_graceful("low", "victim", "2")),
            create(_of("high", "p", "2")),
            create(_of("top", "rival", "2")),
            end("victim"),
        ]
    )


def a_more_important_pod_displaces_as_well() -> Scenario:
    """It needs a second victim on the node that is kept for another pod."""
    return Scenario(
        [
            _CLASSES,
            create(node("a", cpu="2")),
            create(_graceful("low", "first-victim")),
            create(_graceful("middle", "second-victim")),
            create(_of("high", "p")),
            create(_of("top", "rival", "2")),
            end("first-victim"),
            end("second-victim"),
        ]
    )


def the_preemptor_is_deleted() -> Scenario:
    return Scenario(
        [
            _CLASSES,
            create(node("a", cpu="1")),
            create(_graceful("low", "victim")),
            create(_of("high", "p")),
            create(_of("middle", "next")),
            delete("Pod", "p"),
            end("victim"),
        ]
    )


def the_nominated_node_is_deleted() -> Scenario:
    return Scenario(
        [
            _CLASSES,
            create(node("a", cpu="1"), node("b", cpu="1")),
            create(_graceful("top", "stays", nodeSelector=_on("b"))),
            create(_graceful("low", "victim")),
            create(_of("high", "p")),
            delete("Node", "a"),
            create(node("a", cpu="1")),
            end("victim"),
        ]
    )


def two_preemptors_displace_one_pod_each() -> Scenario:
    return Scenario(
        [
            _CLASSES,
            create(node("a", cpu="1"), node("b", cpu="1")),
            create(_graceful("low", "low", nodeSelector=_on("a"))),
            create(_graceful("middle", "middle", nodeSelector=_on("b"))),
            create(_of("high", "first")),
            create(_of("high", "second")),
            end("middle"),
            end("low"),
        ]
    )


def a_more_important_pod_waits_for_the_same_victim() -> Scenario:
    """A pod that waits for its victim loses its nomination to a more important one."""
    return Scenario(
        [
            _CLASSES,
            create(node("a", cpu="1")),
            create(_graceful("low", "victim")),
            create(_of("middle", "first")),
            create(_of("high", "second")),
            end("victim"),
            create(node("b", cpu="1")),
        ]
    )


def a_pod_with_its_affinity_satisfied_by_a_victim() -> Scenario:
    """No room can be made on the only node: the pod has to be near the very pod that would have to go."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return Scenario(
        [
            _CLASSES,
            create(node("a", cpu="1")),
            create(_of("low", "db", labels={"app": "db"})),
            create(_of("high", "p", affinity=near)),
        ]
    )


def others_are_tried_while_a_victim_goes() -> Scenario:
    """The victim is gone at once, which wakes other pods before the deletion is answered."""
    return Scenario(
        [
            _CLASSES,
            create(node("a", cpu="2")),
            create(_of("low", "victim", "2")),
            create(_of("low", "first", "2"), _of("low", "second", "2")),
            create(_of("high", "p")),
            create(_of("high", "q")),
        ]
    )


def the_nominated_node_is_cordoned() -> Scenario:
    return Scenario(
        [
            _CLASSES,
            create(node("a", cpu="1")),
            create(_graceful("low", "victim")),
            create(_of("high", "p")),
            change("Node", "a", {"spec": {"unschedulable": True}}),
            end("victim"),
            change("Node", "a", {"spec": {"unschedulable": None}}),
        ]
    )


def a_nominated_pod_changes() -> Scenario:
    return Scenario(
        [
            _CLASSES,
            create(node("a", cpu="1")),
            create(_graceful("low", "victim")),
            create(_of("high", "p")),
            change("Pod", "p", {"metadata": {"labels": {"app": "web"}}}),
            change("Pod", "p", {"spec": {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}}),
            end("victim"),
        ]
    )


def a_budget_allows_one() -> Scenario:
    """Two protected pods would have to go from one node, of which one may; from the other a more important one."""
    return Scenario(
        [
            _CLASSES,
            create(node("a", cpu="2"), node("b", cpu="2"), budget("protected", {"app": "protected"})),
            allow_disruptions("protected", 1),
            create(_graceful("low", "one", labels={"app": "protected"}, nodeSelector=_on("a"))),
            create(_graceful("low", "two", labels={"app": "protected"}, nodeSelector=_on("a"))),
            create(_graceful("middle", "plain", "2", nodeSelector=_on("b"))),
            create(_of("high", "p", "2")),
        ]
    )


def a_nomination_for_a_node_that_is_too_small_now() -> Scenario:
    return Scenario(
        [
            _CLASSES,
            create(node("a", cpu="2")),
            create(_graceful("low", "victim", "2")),
            create(_of("high", "p", "2")),
            change("Node", "a", {"status": {"allocatable": {"cpu": "1"}}}, subresource="status"),
            end("victim"),
            change("Node", "a", {"status": {"allocatable": {"cpu": "4"}}}, subresource="status"),
        ]
    )

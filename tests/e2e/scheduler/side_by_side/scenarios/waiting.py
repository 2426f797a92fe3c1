"""Gates, priorities, profiles, and pods that change or go while they wait."""

from tests.e2e.scheduler.side_by_side.steps import BindByHand, Scenario, change, create, delete, priority_class
from tests.e2e.support.objects import Object, node, pod

_BIG = {"cpu": "8"}


def _gates(*names: str) -> list[Object]:
    return [{"name": f"example.com/{name}"} for name in names]


def gates_go_one_by_one() -> Scenario:
    return Scenario(
        [
            create(node("a")),
            create(pod("gated", schedulingGates=_gates("one", "two"))),
            create(pod("other")),
            change("Pod", "gated", {"spec": {"schedulingGates": _gates("two")}}),
            change("Pod", "gated", {"spec": {"schedulingGates": None}}),
        ]
    )


def a_gated_pod_turns_out_not_to_fit() -> Scenario:
    return Scenario(
        [
            create(node("a", cpu="1")),
            create(pod("gated", requests=_BIG, schedulingGates=_gates("one"))),
            change("Pod", "gated", {"spec": {"schedulingGates": None}}),
            create(node("b", cpu="16")),
        ]
    )


def a_gated_pod_is_deleted() -> Scenario:
    gated = pod("gated", schedulingGates=_gates("one"))
    return Scenario([create(node("a")), create(gated), delete("Pod", "gated"), create(pod("gated"))])


def a_gated_pod_gets_a_node_selector() -> Scenario:
    return Scenario(
        [
            create(node("a", cpu="8"), node("b", labels={"disk": "ssd"})),
            create(pod("gated", schedulingGates=_gates("one"))),
            change("Pod", "gated", {"spec": {"nodeSelector": {"disk": "ssd"}}}),
            change("Pod", "gated", {"spec": {"schedulingGates": None}}),
        ]
    )


def the_more_important_pod_comes_first() -> Scenario:
    return Scenario(
        [
            create(priority_class("low", 1), priority_class("high", 100)),
            create(pod("low", requests={"cpu": "1"}, priorityClassName="low")),
            create(pod("high", requests={"cpu": "1"}, priorityClassName="high")),
            create(pod("zero", requests={"cpu": "1"})),
            create(node("a", cpu="2")),
        ]
    )


def pods_of_three_profiles() -> Scenario:
    taint = {"key": "dedicated", "value": "yes", "effect": "NoSchedule"}
    return Scenario(
        [
            create(node("a", cpu="4"), node("b", cpu="8"), node("t", cpu="16", taints=[taint])),
            create(pod("spread", requests={"cpu": "2", "memory": "4Gi"})),
            create(pod("packed", requests={"cpu": "1", "memory": "2Gi"}, schedulerName="packing")),
            create(pod("lenient", requests={"cpu": "10"}, schedulerName="lenient")),
            create(pod("too-big-1", requests={"cpu": "100"})),
            create(pod("too-big-2", requests={"cpu": "100"}, schedulerName="packing")),
            create(pod("too-big-3", requests={"cpu": "100"}, schedulerName="lenient")),
        ]
    )


def preemption_is_left_to_one_profile() -> Scenario:
    return Scenario(
        [
            create(priority_class("high", 100), node("a", cpu="1")),
            create(pod("running", requests={"cpu": "1"})),
            create(pod("lenient", requests={"cpu": "1"}, priorityClassName="high", schedulerName="lenient")),
            create(pod("packing", requests={"cpu": "1"}, priorityClassName="high", schedulerName="packing")),
        ]
    )


def a_pod_of_another_scheduler() -> Scenario:
    return Scenario(
        [
            create(node("a", cpu="1")),
            create(pod("other", requests={"cpu": "1"}, schedulerName="unknown")),
            create(pod("mine", requests={"cpu": "1"})),
            create(pod("waits", requests={"cpu": "1"})),
            delete("Pod", "other"),
        ]
    )


def a_pod_is_deleted_while_it_waits() -> Scenario:
    return Scenario(
        [
            create(node("a", cpu="1")),
            create(pod("p", requests=_BIG)),
            delete("Pod", "p"),
            create(pod("p", requests={"cpu": "1"})),
            create(pod("q", requests=_BIG)),
        ]
    )


def a_pod_is_held_by_a_finalizer_while_it_goes() -> Scenario:
    held = pod("held", requests=_BIG)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    return Scenario(
        [
            create(node("a", cpu="1")),
            create(held),
            delete("Pod", "held"),
            create(node("b", cpu="16")),
            change("Pod", "held", {"metadata": {"finalizers": None}}),
        ]
    )


def a_gated_pod_is_held_by_a_finalizer() -> Scenario:
    held = pod("held", schedulingGates=_gates("one"))
    held["metadata"]["finalizers"] = ["example.com/hold"]
    return Scenario(
        [
            create(node("a")),
            create(held),
            delete("Pod", "held"),
            change("Pod", "held", {"spec": {"schedulingGates": None}}),
        ]
    )


def a_pod_changes_while_it_waits() -> Scenario:
    return Scenario(
        [
            create(node("a", cpu="1")),
            create(pod("p", requests=_BIG)),
            change("Pod", "p", {"metadata": {"labels": {"app": "web"}}}),
            change("Pod", "p", {"metadata": {"annotations": {"note": "x"}}}),
            change("Pod", "p", {"spec": {"activeDeadlineSeconds": 1000}}),
            create(node("b", cpu="16")),
        ]
    )


def a_pod_is_bound_by_hand() -> Scenario:
    return Scenario(
        [
            create(node("a", cpu="1"), node("b", cpu="2")),
            create(pod("p", requests=_BIG)),
            BindByHand("p", "b"),
            create(pod("q", requests={"cpu": "2"})),
            delete("Pod", "p"),
        ]
    )


def a_pod_that_names_its_node() -> Scenario:
    return Scenario(
        [
            create(node("a", cpu="1")),
            create(pod("static", requests={"cpu": "1"}, nodeName="a")),
            create(pod("p", requests={"cpu": "1"})),
            delete("Pod", "static"),
        ]
    )


def many_wait_for_one_node() -> Scenario:
    pods = (pod(f"p{number}", requests={"cpu": "1"}) for number in range(10))
    return Scenario(
        [create(node("full", cpu="100m")), create(*pods), create(node("a", cpu="4")), create(node("b", cpu="8"))]
    )

"""Resources, host ports, and nodes that change."""

from tests.e2e.scheduler.side_by_side.steps import Scenario, change, create, delete, finish
from tests.e2e.support.objects import node, pod

_GPU = "example.com/gpu"


def _capacity(**amounts: str) -> dict[str, object]:
    return {"status": {"capacity": amounts, "allocatable": amounts}}


def the_emptiest_node_is_best() -> Scenario:
    nodes = create(node("a", cpu="4"), node("b", cpu="16"), node("c", cpu="2"))
    pods = (create(pod(f"p{number}", requests={"cpu": "1", "memory": "1Gi"})) for number in range(3))
    return Scenario([nodes, *pods])


def a_node_comes_late() -> Scenario:
    return Scenario(
        [
            create(node("small", cpu="1")),
            create(pod("big", requests={"cpu": "3"})),
            create(node("useless", cpu="2")),
            create(node("large", cpu="4")),
        ]
    )


def no_nodes_at_all() -> Scenario:
    return Scenario([create(pod("first")), create(pod("second")), create(node("late"))])


def the_last_node_is_deleted() -> Scenario:
    return Scenario(
        [create(node("a")), create(pod("first")), delete("Node", "a"), create(pod("second")), create(node("b"))]
    )


def a_pod_leaves_room() -> Scenario:
    return Scenario(
        [
            create(node("a", cpu="1")),
            create(pod("first", requests={"cpu": "1"})),
            create(pod("second", requests={"cpu": "1"})),
            delete("Pod", "first"),
        ]
    )


def a_pod_succeeds_and_leaves_room() -> Scenario:
    return Scenario(
        [
            create(node("a", cpu="1")),
            create(pod("first", requests={"cpu": "1"})),
            create(pod("second", requests={"cpu": "1"})),
            finish("first"),
        ]
    )


def several_reasons() -> Scenario:
    taint = {"key": "dedicated", "value": "yes", "effect": "NoSchedule"}
    cordoned = node("cordoned")
    cordoned["spec"]["unschedulable"] = True
    return Scenario(
        [
            create(
                node("tainted", taints=[taint]), cordoned, node("small", cpu="1", memory="1Gi"), node("full", pods="0")
            ),
            create(pod("wants", requests={"cpu": "2", "memory": "2Gi", "ephemeral-storage": "1Gi"})),
        ]
    )


def a_pod_that_no_node_can_hold() -> Scenario:
    return Scenario([create(node("a"), node("b")), create(pod("huge", requests={"cpu": "1000", "memory": "10Ti"}))])


def extended_resources() -> Scenario:
    with_gpu = node("gpus")
    for part in ("capacity", "allocatable"):
        with_gpu["status"][part] = {**with_gpu["status"][part], _GPU: "1"}
    return Scenario(
        [
            create(with_gpu, node("plain")),
            create(pod("first", containers=_asking_for_gpu())),
            create(pod("second", containers=_asking_for_gpu())),
            change("Node", "gpus", _capacity(**{_GPU: "2"}), subresource="status"),
        ]
    )


def _asking_for_gpu() -> list[dict[str, object]]:
    amounts = {"requests": {_GPU: "1"}, "limits": {_GPU: "1"}}
    return [{"name": "main", "image": "registry.example/main:1", "resources": amounts}]


def a_node_grows_and_shrinks() -> Scenario:
    return Scenario(
        [
            create(node("a", cpu="1")),
            create(pod("big", requests={"cpu": "2"})),
            change("Node", "a", _capacity(cpu="4"), subresource="status"),
            change("Node", "a", _capacity(cpu="1"), subresource="status"),
            create(pod("other", requests={"cpu": "1"})),
        ]
    )


def a_node_has_no_place_for_another_pod() -> Scenario:
    return Scenario(
        [
            create(node("a", pods="1")),
            create(pod("first")),
            create(pod("second")),
            change("Node", "a", _capacity(pods="2"), subresource="status"),
        ]
    )


def init_containers_and_overhead() -> Scenario:
    init = [{"name": "init", "image": "registry.example/init:1", "resources": {"requests": {"cpu": "3"}}}]
    return Scenario(
        [
            create(node("a", cpu="2"), node("b", cpu="4")),
            create(pod("first", requests={"cpu": "1"}, initContainers=init)),
            create(pod("second", requests={"cpu": "500m"}, initContainers=init)),
            create(pod("third", requests={"cpu": "3"})),
        ]
    )


def host_ports_are_taken() -> Scenario:
    return Scenario(
        [
            create(node("a"), node("b", cpu="8")),
            create(pod("first", host_ports=[8080])),
            create(pod("second", host_ports=[8080])),
            create(pod("third", host_ports=[8080])),
            create(pod("other", host_ports=[8081])),
            delete("Pod", "first"),
        ]
    )


def images_are_on_a_node() -> Scenario:
    with_image = node("with-image")
    with_image["status"]["images"] = [{"names": ["registry.example/main:1"], "sizeBytes": 900_000_000}]
    return Scenario([create(node("without"), with_image), create(pod("p"))])


def a_note_is_too_long_for_an_event() -> Scenario:
    nodes = [
        node(
            f"n{number}", taints=[{"key": f"example.com/taint-{number:02}", "value": "x" * 40, "effect": "NoSchedule"}]
        )
        for number in range(15)
    ]
    return Scenario([create(*nodes), create(pod("p")), change("Node", "n3", {"spec": {"taints": None}})])

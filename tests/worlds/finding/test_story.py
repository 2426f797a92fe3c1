"""A story says what changed and who did it, in order, and leaves out what is usual."""

from tests.worlds.faults.plan import Fault
from tests.worlds.finding.story import Story
from tests.worlds.finding.world_run import run_world
from tests.worlds.scenarios import Scenario


def story(scenario: Scenario) -> list[str]:
    stories: list[Story] = []
    run_world(scenario, lambda cluster: stories.append(Story(cluster)))
    return [line.split(" ", 1)[1] for line in stories[0].lines()]


def test_tells_of_pods_leaders_and_faults_in_order() -> None:
    kill = Fault(30.0, "kill", "replica-0")
    without = frozenset({"replica-1"})
    lines = story(Scenario(seed=1, minutes=1.0, replicas=2, nodes=1, pods=1, faults=(kill,), without=without))
    expected = [
        "cluster: created node node-0",
        "replica-0: starts",
        "replica-0: replica-0 leads (kube-system/kube-scheduler)",
        "cluster: created pod default/pod-0 (",
        "replica-0: bound pod default/pod-0 to node-0",
        "fault: kill replica-0",
        "replica-0: was killed",
        "replica-0: starts",
    ]
    found = iter(lines)
    assert all(any(line.startswith(each) for line in found) for each in expected), lines
    assert len(lines) < 25
    assert not any("GET" in line and "200" in line for line in lines)


def test_tells_of_requests_that_are_refused() -> None:
    lines = story(Scenario(seed=1, minutes=0.2, replicas=2, nodes=1, pods=0, without=frozenset({"replica-1"})))
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
    assert f"replica-0: gets 404 for GET {lease}" in lines


def test_names_kubelets_and_controllers_and_leaves_out_their_leases() -> None:
    lines = story(Scenario(seed=1, minutes=1.0, replicas=0, nodes=5, pods=20, has_others=True))
    assert "kubelet-node-0: created node node-0" in lines
    assert any(line.startswith("controller-manager: created pod default/set-") for line in lines)
    assert not [line for line in lines if "kube-node-lease" in line and "gets" not in line]

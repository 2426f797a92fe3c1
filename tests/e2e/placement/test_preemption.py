"""Important pods displace the pods that kube-scheduler's own plugins would, and end up in the room made for them.

The oracle, which runs these plugins, is asked about the state of the API server just before. There are no kubelets: a
victim stays Terminating until the test ends it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pytest

from tests.conformance.cases import read_verdicts
from tests.e2e.support.objects import Object, pod
from tests.e2e.support.oracle_cases import KINDS, case, surroundings, without_history
from tests.e2e.support.preemption_scenarios import (
    BUDGETS,
    CONFLICTS,
    Scenario,
    budgeted,
    cluster_objects,
    host_ports,
    many_small,
    one_or_the_other,
    resources,
    running,
    with_visible_victims,
)
from tests.e2e.support.programs import preempting_schedulers
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.preempting_schedulers import ALL_FILTERS, Mode, lacking
from tests.e2e.support.programs.service import Service
from tests.e2e.support.releases import both_releases, deciding_as
from tests.e2e.support.waiting import wait_until

# Of a race that a busy machine may lose.
ROUNDS = 5


class Displacement(NamedTuple):
    """The node that a pod is to get, and the names of the pods that have to go from there."""

    node: str
    victims: frozenset[str]


class Cluster:
    """The cluster of the scenarios, on which a kube-scheduler and the service place pods."""

    def __init__(
        self, control_plane: ControlPlane, service: Service, mode: Mode, ask_oracle: Callable[[bytes], bytes]
    ) -> None:
        self.api = control_plane.api
        self.mode = mode
        self.service = service
        self._ask_oracle = ask_oracle

    def run(self, pods: Sequence[Object]) -> None:
        """Put pods on their nodes, started one after the other, and wait until the service knows them."""
        for number, created in enumerate(self.api.create(*pods)):
            status = {"phase": "Running", "startTime": f"2026-01-01T00:00:{number:02}Z"}
            self.api.patch(created, patch={"status": status}, subresource="status")
        # Pods arrive in the order of their changes: who knows of the last one knows when the others started.
        self.api.create(running("d", "last", "top"))
        wait_until(lambda: self._pods_known() == len(pods) + 1, "the service to see the pods")

    def expected(self, preemptor: Object, *, by_budgets: bool = True) -> Displacement:
        """What kube-scheduler's own plugins, all of them, would do now; nothing of it must be left to chance."""
        wanted = {**preemptor, "spec": {**preemptor["spec"], "schedulerName": ALL_FILTERS}}
        # A dry run, so that the API server fills in what it does.
        complete = self.api.request("POST", self.api.path("Pod", "default"), wanted, {"dryRun": "All"})
        others = [without_history(found) for found in self.api.list_all("Pod")]
        kinds = {version: kinds for version, kinds in KINDS.items() if by_budgets or version != "policy/v1"}
        around = surroundings(self.api, kinds)
        verdicts = self._ask_oracle(case("preemptor", without_history(complete), others, around))
        [verdict] = read_verdicts(iter(verdicts.splitlines()))
        assert "error" not in verdict, verdict
        [node] = verdict["preempt"]["tied"]
        [victims] = [found["victims"] for found in verdict["preempt"]["candidates"] if found["node"] == node]
        return Displacement(node, frozenset(name.removeprefix("default/") for name in victims))

    def displaced(self) -> Displacement:
        """Where the preemptor is nominated, once it is, and the pods that are being deleted by then.

        It may be on the node already: topology spread does not count pods that are being deleted.
        """

        def node_of_preemptor() -> str:
            found = self.pod("preemptor")
            node: str = found["status"].get("nominatedNodeName") or found["spec"].get("nodeName", "")
            return node

        node = wait_until(node_of_preemptor, "a nominated node")
        return Displacement(node, frozenset(found["metadata"]["name"] for found in self.terminating()))

    def end_victims(self) -> None:
        """Do the kubelets' part."""
        self.api.delete(*self.terminating())

    def node_of(self, name: str) -> str:
        """The node that a pod is bound to, once it is."""
        node: str = wait_until(lambda: self.pod(name)["spec"].get("nodeName", ""), f"{name} to be bound")
        return node

    def pod(self, name: str) -> Object:
        return self.api.get("Pod", name, namespace="default")

    def pod_names(self, field_selector: str = "") -> frozenset[str]:
        found = self.api.list_all("Pod", field_selector=field_selector)
        return frozenset(each["metadata"]["name"] for each in found)

    def clear(self) -> None:
        """Delete all pods, and wait until the service knows."""
        self.api.delete(*self.api.list_all("Pod"))
        wait_until(lambda: not self._pods_known(), "the service to see the pods gone")

    def terminating(self) -> list[Object]:
        return [found for found in self.api.list_all("Pod") if "deletionTimestamp" in found["metadata"]]

    def _pods_known(self) -> int:
        # It has another name in later releases.
        names = ("scheduler_scheduler_cache_size", "scheduler_cache_size")
        return int(max(self.service.metric(name, type="pods") for name in names))


@pytest.fixture(scope="module", params=["replace", "beside", "service"])
def shared_cluster(
    request: pytest.FixtureRequest,
    nodes: ControlPlane,
    ask_oracle: Callable[[bytes], bytes],
    tmp_path_factory: pytest.TempPathFactory,
    minor: int,
) -> Iterator[Cluster]:
    mode: Mode = request.param
    directory, options = tmp_path_factory.mktemp(mode), [deciding_as(minor)]
    with preempting_schedulers.running(nodes, directory, mode, options=options) as service:
        yield Cluster(nodes, service, mode, ask_oracle)


@pytest.fixture(scope="module")
def nodes(shared_control_plane: ControlPlane) -> ControlPlane:
    """The control plane with what stays through all scenarios; the budgets' status is the disruption controller's."""
    api = shared_control_plane.api
    for created in api.create(*cluster_objects()):
        if created["kind"] == "PodDisruptionBudget":
            status = {"disruptionsAllowed": BUDGETS[created["metadata"]["name"]]}
            status |= dict.fromkeys(("currentHealthy", "desiredHealthy", "expectedPods"), 2)
            api.patch(created, patch={"status": status}, subresource="status")
    return shared_control_plane


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """Without pods, before the test and after it."""
    yield shared_cluster
    shared_cluster.clear()
    assert shared_cluster.service.requests("preempt", "error") == 0


@both_releases
@pytest.mark.parametrize("conflict", CONFLICTS)
def test_the_pods_go_that_kube_scheduler_would_choose(cluster: Cluster, conflict: Callable[[], Scenario]) -> None:
    scenario = conflict()
    cluster.run(scenario.running)
    require(cluster, scenario.preemptor, cluster.expected(scenario.preemptor))


@pytest.mark.parametrize("conflict", CONFLICTS)
def test_victims_are_added_where_only_the_service_minds_them(
    cluster: Cluster, conflict: Callable[[], Scenario]
) -> None:
    """What kube-scheduler proposes is not enough on any node, and on c nothing is."""
    scenario = with_visible_victims(conflict())
    cluster.run(scenario.running)
    preemptor = scheduled_by(lacking(scenario.plugin), scenario.preemptor)
    require(cluster, preemptor, cluster.expected(preemptor))


def test_what_kube_scheduler_proposes_goes_as_well_only_beside_it(cluster: Cluster) -> None:
    """Of two pods it takes the less important one for the victim; the host port, which it lacks, asks for the other."""
    scenario = one_or_the_other()
    cluster.run(scenario.running)
    preemptor = scheduled_by(lacking(scenario.plugin), scenario.preemptor)
    expected = cluster.expected(preemptor)
    assert len(expected.victims) == 1
    if cluster.mode == "beside":
        expected = Displacement(expected.node, cluster.pod_names(f"spec.nodeName={expected.node}"))
    require(cluster, preemptor, expected)


def test_budgets_steer_away_from_pods(cluster: Cluster) -> None:
    scenario = with_visible_victims(budgeted())
    cluster.run(scenario.running)
    preemptor = scheduled_by(lacking(scenario.plugin), scenario.preemptor)
    expected = cluster.expected(preemptor)
    assert expected.node != cluster.expected(preemptor, by_budgets=False).node
    require(cluster, preemptor, expected)


def test_the_room_is_kept_for_the_pod_that_it_was_made_for(cluster: Cluster) -> None:
    """Another pod comes as it gets free, before the preemptor's backoff is over; only the service is against that."""
    scenario = with_visible_victims(host_ports())
    for _ in range(ROUNDS):
        if rival_comes_first(cluster, scenario):
            return
        cluster.clear()
    pytest.fail(f"in {ROUNDS} rounds, the backoff was over before the other pod was decided about")


def test_pods_that_preempt_at_once_displace_one_pod_each(cluster: Cluster) -> None:
    """Those who come later see which room is made for those who came before."""
    scenario = many_small()
    cluster.run(scenario.running)
    others = cluster.pod_names()
    preemptors = [named(f"preemptor-{number}", scenario.preemptor) for number in range(8)]

    def all_nominated() -> bool:
        found = [cluster.pod(each["metadata"]["name"]) for each in preemptors]
        return all(each["status"].get("nominatedNodeName") for each in found)

    def all_bound() -> bool:
        cluster.end_victims()
        return not cluster.pod_names("spec.nodeName=")

    cluster.api.create(*preemptors)
    wait_until(all_nominated, "all preemptors to be nominated")
    wait_until(all_bound, "all preemptors to be bound")
    assert len(others & cluster.pod_names()) == len(others) - len(preemptors)


@both_releases
@pytest.mark.parametrize("shared_cluster", ["service"], indirect=True)
def test_a_pod_that_is_tried_again_gets_no_more_victims(cluster: Cluster) -> None:
    """Its victims take long to end. kube-scheduler may take the nomination back each time; the service keeps it."""
    scenario = resources()
    cluster.run(scenario.running)
    expected = cluster.expected(scenario.preemptor)
    others = cluster.pod_names()
    cluster.api.create(scenario.preemptor)
    wait_until(lambda: len(cluster.terminating()) == len(expected.victims), "the victims to be evicted")

    for number in range(3):
        try_again(cluster, f"event-{number}")

    wait_until(lambda: cluster.displaced() == expected, "the nomination")
    cluster.end_victims()
    assert cluster.node_of("preemptor") == expected.node
    assert cluster.pod_names() >= others - expected.victims


def test_a_pod_that_must_not_preempt_waits(cluster: Cluster) -> None:
    scenario = resources()
    cluster.run(scenario.running)
    cluster.api.create(pod("preemptor", requests={"memory": "12Gi"}, priorityClassName="polite"))
    wait_until(lambda: cluster.pod("preemptor")["status"].get("conditions"), "a decision")
    assert "nominatedNodeName" not in cluster.pod("preemptor")["status"]
    assert not cluster.terminating()


def try_again(cluster: Cluster, name: str) -> None:
    """Have kube-scheduler ask about a refused pod again: the end of any pod on a node wakes it."""
    calls = cluster.service.requests("filter", "refused")
    cluster.api.delete(*cluster.api.create(pod(name, nodeName="d")))
    wait_until(lambda: cluster.service.requests("filter", "refused") > calls, "another try")


def rival_comes_first(cluster: Cluster, scenario: Scenario) -> bool:
    """Have room made for the preemptor, and create another pod for it.

    Returns whether that one was decided about while the preemptor was not bound yet. If not, it was the bound preemptor
    that kept it out.
    """
    name = lacking(scenario.plugin)
    cluster.run(scenario.running)
    cluster.api.create(scheduled_by(name, scenario.preemptor))
    node, _ = cluster.displaced()
    wait_until(cluster.terminating, "the victims to be evicted")
    cluster.end_victims()
    cluster.api.create(pod("rival", host_ports=[8080], priorityClassName="low", schedulerName=name))

    wait_until(lambda: cluster.pod("rival")["status"].get("conditions"), "a decision about the other pod")
    comes_first = "nodeName" not in cluster.pod("preemptor")["spec"]
    assert cluster.node_of("preemptor") == node
    assert "nodeName" not in cluster.pod("rival")["spec"]
    return comes_first


def require(cluster: Cluster, preemptor: Object, expected: Displacement) -> None:
    """Create the preemptor, and follow it to its node: these pods have to go, and no others."""
    others = cluster.pod_names()
    cluster.api.create(preemptor)
    # The service nominates before it evicts, and so may kube-scheduler since 1.33.
    wait_until(lambda: len(cluster.displaced().victims) >= len(expected.victims), "the victims to be evicted")
    assert cluster.displaced() == expected
    cluster.end_victims()
    assert cluster.node_of("preemptor") == expected.node
    assert cluster.pod_names() == others - expected.victims | {"preemptor"}
    assert not cluster.terminating()


def scheduled_by(name: str, wanted: Object) -> Object:
    return {**wanted, "spec": {**wanted["spec"], "schedulerName": name}}


def named(name: str, wanted: Object) -> Object:
    return {**wanted, "metadata": {**wanted["metadata"], "name": name}}

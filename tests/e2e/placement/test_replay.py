"""Every placement of a busy cluster is one that kube-scheduler's own plugins rank highest, for the state at that time.

A plugin records each decision as the service, or the whole scheduler, makes it. The oracle, which runs kube-scheduler's
plugins of the same release, then judges the same pod with the same pods on the same nodes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from extender_service.config.release import NEWEST_MINOR
from tests.conformance.cases import Verdict, read_verdicts
from tests.e2e.support import demanding_cluster
from tests.e2e.support.api import API
from tests.e2e.support.objects import Object
from tests.e2e.support.oracle_cases import case, surroundings, why_not, without_history
from tests.e2e.support.plugins.decision_recorder import Decision, DecisionRecorder, read_decisions
from tests.e2e.support.programs import schedulers
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.service import Service
from tests.e2e.support.programs.whole_scheduler import scheduling
from tests.e2e.support.releases import both_releases, deciding_as
from tests.e2e.support.waiting import wait_until

RECORDING = "decisions.jsonl"
# All filters of the default profile but NodeName: a pod that names its node is not scheduled.
FILTERS = {
    "InterPodAffinity",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "NodeUnschedulable",
    "NodeVolumeLimits",
    "PodTopologySpread",
    "TaintToleration",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
}
SCORES = {
    "ImageLocality",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "PodTopologySpread",
    "TaintToleration",
}


@both_releases
def test_every_pod_is_placed_as_kube_schedulers_own_plugins_would(
    control_plane: ControlPlane, tmp_path: Path, ask_oracle: Callable[[bytes], bytes], minor: int
) -> None:
    with (
        Service(
            tmp_path,
            control_plane.kubeconfig,
            configuration=recorded_in(tmp_path),
            plugins=[DecisionRecorder],
            options=[deciding_as(minor)],
        ) as service,
        schedulers.running(control_plane, schedulers.replacing(service.url, node_cache_capable=True)),
    ):
        placed = place_all(control_plane.api, minor)
        assert service.requests("filter", "refused")
        # How many depends on how soon the watch shows what kube-scheduler has bound. Metrics may be a second old.
        wait_until(
            lambda: service.metric("extender_service_decisions_ahead_total", result="used"), "a decision made ahead"
        )
    require_none_better(control_plane.api, placed, tmp_path, ask_oracle)


@both_releases
def test_the_whole_scheduler_places_every_pod_as_kube_schedulers_own_plugins_would(
    control_plane: ControlPlane, tmp_path: Path, ask_oracle: Callable[[bytes], bytes], minor: int
) -> None:
    recorded = recorded_in(tmp_path)
    with scheduling(control_plane, recorded, plugins=[DecisionRecorder], options=[deciding_as(minor)]) as scheduler:
        placed = place_all(control_plane.api, minor)
        scheduler.require_running()
    require_none_better(control_plane.api, placed, tmp_path, ask_oracle)


class Placed(NamedTuple):
    """All pods as they were made, and the names of those that are deleted since."""

    pods: list[Object]
    deleted: set[str]


def place_all(api: API, minor: int) -> Placed:
    """Fill the demanding cluster, and wait until all pods are bound."""
    api.create(demanding_cluster.NAMESPACE)
    api.create(*demanding_cluster.surroundings())
    first = api.create(*demanding_cluster.exclusive_pods("first"))
    pods = [*first, *api.create(*demanding_cluster.pods())]
    wait_until_all_are_bound(api, "all pods to be bound")
    pods += api.create(*demanding_cluster.exclusive_pods("second"))
    wait_until(lambda: any(map(is_refused, api.list_all("Pod"))), "a second pod to be refused")
    api.delete(*first)
    wait_until_all_are_bound(api, "the second pods to be bound")
    pods += api.create(*demanding_cluster.pods_in_numbers())
    if minor == NEWEST_MINOR:
        pods += api.create(*demanding_cluster.pods_with_new_fields())
    wait_until_all_are_bound(api, "pods in numbers to be bound")
    return Placed(pods, {name(pod) for pod in first})


def require_none_better(api: API, placed: Placed, directory: Path, ask_oracle: Callable[[bytes], bytes]) -> None:
    """Replay all decisions through the oracle, and require that none was to be made otherwise."""
    pods, deleted = placed
    decisions = [*read_decisions(directory / RECORDING)]
    assert len(decisions) >= 300
    bound = {name(pod): pod["spec"]["nodeName"] for pod in api.list_all("Pod")}
    assert bound == {decision.pod: decision.node for decision in decisions if decision.pod not in deleted}
    require_none(forgotten_or_imagined(decisions, deleted))

    verdicts = read_verdicts(iter(ask_oracle(b"\n".join(cases(api, pods, decisions))).splitlines()))
    judged = zip(decisions, verdicts, strict=True)
    require_none(chain.from_iterable(why_not(each.pod, each.node, verdict) for each, verdict in judged))
    # Each plugin had a say.
    assert rejecting(verdicts) >= FILTERS
    assert ranking(verdicts) == SCORES


def recorded_in(directory: Path) -> Object:
    """The default profile of the service, with the recorder after its plugins."""
    recorder = {"enabled": [{"name": DecisionRecorder.name}]}
    arguments = {"name": DecisionRecorder.name, "args": {"file": str(directory / RECORDING)}}
    return {
        "profiles": [
            {"schedulerName": "default-scheduler", "plugins": {"reserve": recorder}, "pluginConfig": [arguments]}
        ]
    }


def is_refused(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(found["type"] == "PodScheduled" and found["status"] == "False" for found in conditions)


def wait_until_all_are_bound(api: API, what: str) -> None:
    """Wait a minute at most; what is pending then is in the error."""
    try:
        wait_until(lambda: not pending(api), what, 60)
    except TimeoutError as error:
        waiting = {name(pod): pod.get("status", {}).get("conditions") for pod in pending(api)}
        raise AssertionError(f"{error}; pending are {waiting}") from error


def pending(api: API) -> list[Object]:
    return api.list_all("Pod", field_selector="spec.nodeName=")


def name(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def require_none(differences: Iterable[str]) -> None:
    """Fail with the first of them."""
    found = [*differences]
    assert not found, "\n".join([f"{len(found)} differences:", *found[:5]])


def forgotten_or_imagined(decisions: Sequence[Decision], deleted: set[str]) -> Iterator[str]:
    """Pods that counted although no decision before said so, or didn't although one had.

    Pods that are deleted some time may count or not.
    """
    placed: dict[str, str] = {}
    for decision in decisions:
        placed.pop(decision.pod, None)  # asked about again
        unlike = {(pod, node) for pod, node in placed.items() ^ decision.counted.items() if pod not in deleted}
        if unlike:
            yield f"{decision.pod} was placed without or only with {unlike}"
        placed[decision.pod] = decision.node


def cases(api: API, pods: Sequence[Object], decisions: Sequence[Decision]) -> Iterator[bytes]:
    """Each decision as a case of the oracle's, with the default configuration."""
    around = surroundings(api)
    by_name = {name(pod): without_history(pod) for pod in pods}
    for decision in decisions:
        counted = [
            {**by_name[pod], "spec": {**by_name[pod]["spec"], "nodeName": node}}
            for pod, node in decision.counted.items()
        ]
        yield case(decision.pod, by_name[decision.pod], counted, around)


def rejecting(verdicts: Sequence[Verdict]) -> set[str]:
    """The plugins that rejected a node for some pod."""
    return {plugin for verdict in verdicts for plugin, nodes in verdict["filterByPlugin"].items() if nodes}


def ranking(verdicts: Sequence[Verdict]) -> set[str]:
    """The plugins that scored the nodes differently for some pod."""
    return {
        plugin for verdict in verdicts for plugin, scores in verdict["score"].items() if len(set(scores.values())) > 1
    }

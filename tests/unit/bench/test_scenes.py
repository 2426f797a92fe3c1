"""The scenes of bench.scheduler are what their names say."""

from collections import Counter
from typing import Any

import pytest

from bench.scheduler.gang_plugin import GANG
from bench.scheduler.scenes import SCENES, Scene, at_rate, has_room
from tests.e2e.support.objects import Object

NODES, PODS = 60, 40


@pytest.fixture(params=[*SCENES])
def scene(request: pytest.FixtureRequest) -> Scene:
    return SCENES[request.param](NODES, PODS)


def all_pods(scene: Scene) -> list[Object]:
    return [*scene.pods, *scene.arriving]


def test_no_two_objects_of_a_kind_have_one_name(scene: Scene) -> None:
    names = Counter((each["kind"], each["metadata"]["name"]) for each in [*scene.cluster, *all_pods(scene)])
    assert {name for name, count in names.items() if count > 1} == set()


def test_pods_run_on_nodes_of_the_scene(scene: Scene) -> None:
    nodes = {node["metadata"]["name"] for node in scene.nodes}
    assert {pod["spec"]["nodeName"] for pod in scene.workload.running} <= nodes


def test_what_is_to_be_bound_is_pending(scene: Scene) -> None:
    pending = [*scene.workload.measured, *scene.arriving]
    assert len(pending) == scene.wanted > 0
    assert not any("nodeName" in pod["spec"] for pod in pending)


def test_replica_sets_have_a_thousand_pods_each() -> None:
    scene = SCENES["replica sets"](NODES, 2500)
    owners = Counter(owner["name"] for pod in scene.pods for owner in pod["metadata"]["ownerReferences"])
    assert [*owners.values()] == [1000, 1000, 500]
    assert [owner["metadata"]["name"] for owner in scene.belongings] == [*owners]


def test_no_two_unlike_pods_or_nodes_are_alike_and_each_run_has_the_same() -> None:
    scene = SCENES["unlike"](NODES, PODS)

    def without_name(each: Object) -> str:
        return repr((each["spec"], each.get("status"), {**each["metadata"], "name": ""}))

    assert len({*map(without_name, scene.nodes)}) == NODES
    assert len({*map(without_name, scene.workload.measured)}) == PODS
    assert SCENES["unlike"](NODES, PODS) == scene


def test_each_pod_with_a_volume_has_a_bound_claim_of_its_own() -> None:
    scene = SCENES["volumes"](NODES, PODS)
    claims = {each["metadata"]["name"]: each for each in scene.belongings if each["kind"] == "PersistentVolumeClaim"}
    volumes = {each["metadata"]["name"] for each in scene.belongings if each["kind"] == "PersistentVolume"}
    wanted: list[Any] = [
        volume["persistentVolumeClaim"]["claimName"] for pod in scene.pods for volume in pod["spec"]["volumes"]
    ]
    assert sorted(wanted) == sorted(claims)
    assert {claim["spec"]["volumeName"] for claim in claims.values()} == volumes


def test_all_gangs_are_complete() -> None:
    scene = SCENES["gangs"](NODES, 57)
    gangs = Counter(pod["metadata"]["labels"][GANG] for pod in scene.pods)
    assert [*gangs.values()] == [10] * 5


def test_every_fifth_pod_of_those_that_are_woken_requests_more_than_any_node_has() -> None:
    scene = SCENES["woken"](NODES, PODS)
    pending = [*scene.workload.measured, *scene.workload.hopeless]
    in_turn = sorted(pending, key=lambda pod: str(pod["metadata"]["name"]))
    cores = [pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for pod in in_turn]
    assert [number for number, cpu in enumerate(cores) if cpu == "9"] == [*range(0, PODS, 5)]
    assert {node["status"]["allocatable"]["cpu"] for node in scene.nodes} == {"4"}
    assert scene.wanted == PODS * 4 // 5


def test_a_rolling_update_begins_with_a_quarter_of_the_new_pods() -> None:
    scene = SCENES["rolling update"](NODES, PODS)
    assert (len(scene.workload.running), len(scene.workload.measured), len(scene.arriving)) == (PODS, 10, 30)


def test_at_a_rate_one_pod_or_gang_waits_and_the_others_arrive(scene: Scene) -> None:
    arriving = at_rate(scene, 100)
    assert len(arriving.workload.measured) == (10 if scene.plugins else 1)
    assert arriving.wanted == scene.wanted
    assert len(arriving.disturbances) == len(scene.disturbances) + 1
    assert sorted(pod["metadata"]["name"] for pod in all_pods(arriving)) == sorted(
        pod["metadata"]["name"] for pod in all_pods(scene)
    )


def test_preemption_is_left_out_of_large_clusters() -> None:
    assert [has_room("preemption", "real", nodes) for nodes in (1000, 5000)] == [True, False]
    assert [has_room("preemption", "stub", nodes) for nodes in (5000, 15000)] == [True, False]
    assert has_room("basic", "stub", 15000)

"""Volumes: claims that wait for a pod, volumes made for one, and volumes that are full, missing or elsewhere."""

from typing import Any

from tests.e2e.scheduler.side_by_side.steps import Scenario, Step, change, create, delete, priority_class
from tests.e2e.support.objects import Object, node, pod
from tests.e2e.support.programs.volume_controllers import DRIVER, claim, storage_class, volume_on

_LOCAL = storage_class("local", provisioner="kubernetes.io/no-provisioner")
_DYNAMIC = storage_class("dynamic")


def _with_claims(name: str, *claims: str, **facts: Any) -> Object:
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return pod(name, volumes=volumes, **facts)


def _makes(found: Object, node_name: str) -> bool:
    return True


def _scenario(*steps: Step) -> Scenario:
    return Scenario(steps, _makes)


def a_volume_on_one_node() -> Scenario:
    return _scenario(
        create(node("a", cpu="8"), node("b"), _LOCAL, volume_on("b", "pv", "local")),
        create(claim("data", "local")),
        create(_with_claims("p", "data")),
    )


def no_volume_is_left() -> Scenario:
    return _scenario(
        create(node("a"), node("b"), _LOCAL, volume_on("a", "pv1", "local")),
        create(claim("one", "local"), claim("two", "local")),
        create(_with_claims("p", "one")),
        create(_with_claims("q", "two")),
        create(volume_on("b", "pv2", "local")),
    )


def a_volume_is_made() -> Scenario:
    return _scenario(
        create(node("a"), node("b", cpu="8"), _DYNAMIC),
        create(claim("data", "dynamic")),
        create(_with_claims("p", "data")),
        create(_with_claims("second", "data")),
    )


def two_volumes_one_made_one_found() -> Scenario:
    return _scenario(
        create(node("a", cpu="8"), node("b"), _DYNAMIC, _LOCAL, volume_on("b", "pv", "local")),
        create(claim("found", "local"), claim("made", "dynamic")),
        create(_with_claims("p", "found", "made")),
    )


def a_missing_claim() -> Scenario:
    return _scenario(
        create(node("a"), _DYNAMIC),
        create(_with_claims("p", "data")),
        create(claim("data", "dynamic")),
    )


def a_claim_that_is_not_bound_yet() -> Scenario:
    at_once = {**storage_class("at-once"), "volumeBindingMode": "Immediate"}
    bound = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "pv"}}
    return _scenario(
        create(node("a"), node("b", cpu="8"), at_once),
        create(claim("data", "at-once")),
        create(_with_claims("p", "data")),
        create(volume_on("a", "pv", "at-once")),
        change("PersistentVolumeClaim", "data", bound),
    )


def a_claim_of_a_missing_class() -> Scenario:
    return _scenario(
        create(node("a"), claim("data", "dynamic")),
        create(_with_claims("p", "data")),
        create(_DYNAMIC),
    )


def a_claim_that_is_being_deleted() -> Scenario:
    return _scenario(
        create(node("a"), _DYNAMIC),
        create(claim("data", "dynamic")),
        delete("PersistentVolumeClaim", "data"),
        create(_with_claims("p", "data")),
    )


def a_volume_on_a_full_node() -> Scenario:
    return _scenario(
        create(node("a", cpu="1"), node("b", cpu="8"), _LOCAL, volume_on("a", "pv", "local"), claim("data", "local")),
        create(_with_claims("p", "data")),
        create(pod("filler", requests={"cpu": "1"}, nodeSelector={"kubernetes.io/hostname": "a"})),
        create(_with_claims("q", "data", requests={"cpu": "1"})),
        delete("Pod", "filler"),
    )


def one_pod_at_a_time_may_use_a_volume() -> Scenario:
    single = claim("data", "dynamic")
    single["spec"]["accessModes"] = ["ReadWriteOncePod"]
    return _scenario(
        create(node("a"), node("b", cpu="8"), _DYNAMIC, single),
        create(_with_claims("first", "data")),
        create(_with_claims("second", "data")),
        delete("Pod", "first"),
    )


def the_user_of_a_volume_is_displaced() -> Scenario:
    single = claim("data", "dynamic")
    single["spec"]["accessModes"] = ["ReadWriteOncePod"]
    return _scenario(
        create(node("a"), node("b", cpu="8"), _DYNAMIC, single, priority_class("high", 100)),
        create(_with_claims("first", "data")),
        create(_with_claims("second", "data", priorityClassName="high")),
    )


def a_node_attaches_so_many_volumes() -> Scenario:
    limit: Object = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "a"},
        "spec": {"drivers": [{"name": DRIVER, "nodeID": "a", "allocatable": {"count": 1}}]},
    }
    return _scenario(
        create(node("a"), limit, _DYNAMIC),
        create(claim("one", "dynamic"), claim("two", "dynamic")),
        create(_with_claims("first", "one")),
        create(_with_claims("second", "two")),
        delete("Pod", "first"),
    )


def a_volume_in_another_zone() -> Scenario:
    key = "topology.kubernetes.io/zone"
    zoned = volume_on("b", "pv", "local")
    zoned["metadata"]["labels"] = {key: "z2"}
    return _scenario(
        create(node("a", labels={key: "z1"}), node("b", labels={key: "z1"}), _LOCAL, zoned),
        create(claim("data", "local")),
        create(_with_claims("p", "data")),
        create(_with_claims("q", "data")),
    )


def a_pod_is_deleted_while_its_volume_is_made() -> Scenario:
    return Scenario(
        [
            create(node("a"), _DYNAMIC),
            create(claim("data", "dynamic")),
            create(_with_claims("p", "data")),
            delete("Pod", "p"),
        ],
        lambda found, node_name: None,
    )


def storage_of_a_class_is_only_in_one_zone() -> Scenario:
    key = "topology.kubernetes.io/zone"
    topology = [{"matchLabelExpressions": [{"key": key, "values": ["z2"]}]}]
    return _scenario(
        create(node("a", cpu="8", labels={key: "z1"}), {**_DYNAMIC, "allowedTopologies": topology}),
        create(claim("data", "dynamic")),
        create(_with_claims("p", "data")),
        create(node("b", labels={key: "z2"})),
    )


def a_claim_without_a_class() -> Scenario:
    return _scenario(
        create(node("a"), claim("data", "")),
        create(_with_claims("p", "data")),
        create({**volume_on("a", "pv", ""), "metadata": {"name": "pv"}}),
    )

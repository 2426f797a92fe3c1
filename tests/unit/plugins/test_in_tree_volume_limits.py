"""The limits of in-tree volumes, on nodes without a CSINode."""

import numpy as np
import pytest
from msgspec import structs

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.hypothetical import RowChanges
from extender_service.cluster.view.node_view import NodeView
from extender_service.cluster.volumes.storage_table import StorageObject
from extender_service.config.effective_plugins import effective_profiles
from extender_service.config.loading import parse_config
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.interface import extension_points
from extender_service.framework.status import SKIP, Code, Status, unresolvable, unschedulable
from extender_service.kube.types.core import (
    AWSElasticBlockStore,
    AzureDisk,
    GCEPersistentDisk,
    ObjectMeta,
    Pod,
    ResourceList,
    Source,
    Volume,
    VolumeID,
)
from extender_service.kube.types.storage import PersistentVolumeSpec
from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE
from extender_service.plugins.in_tree_volume_limits import (
    AzureDiskLimits,
    CinderLimits,
    EBSLimits,
    GCEPDLimits,
    InTreeVolumeLimits,
)
from tests.support.clusters.volume_worlds import handle_of, slot_of, storage_cluster, verdicts
from tests.support.objects import make_node
from tests.support.storage_objects import (
    make_claim,
    make_class,
    make_csi_node,
    make_volume,
    with_claims,
    with_volumes,
)

TOO_MANY = unschedulable("node(s) exceed max volume count")
KEY = "attachable-volumes-aws-ebs"


def ebs(disk: str) -> Volume:
    return Volume(name=f"v-{disk}", aws_elastic_block_store=AWSElasticBlockStore(disk))


def ebs_pod(name: str, *disks: str, node: str = "") -> Pod:
    pod = with_volumes(name, *map(ebs, disks))
    return structs.replace(pod, spec=structs.replace(pod.spec, node_name=node))


def judged(
    cluster: Cluster, pod: Pod, nodes: NodeView | None = None, kind: type[InTreeVolumeLimits] = EBSLimits
) -> dict[str, Status | None]:
    plugin, state = kind(None, handle_of(cluster)), CycleState(pod)
    assert plugin.pre_filter(state, pod) is None
    return verdicts(plugin, state, pod, nodes or cluster.view(None))


def two_at_most(*storage: StorageObject, pods: tuple[Pod, ...] = ()) -> Cluster:
    return storage_cluster([make_node("n", {KEY: "2"})], storage, pods)


def test_a_node_takes_no_more_volumes_than_it_offers() -> None:
    cluster = two_at_most(pods=(ebs_pod("running", "vol-1", node="n"),))
    assert judged(cluster, ebs_pod("p", "vol-2")) == {"n": None}
    assert judged(cluster, ebs_pod("p", "vol-2", "vol-3")) == {"n": TOO_MANY}
    assert judged(cluster, ebs_pod("p", "vol-1", "vol-2", "vol-2")) == {"n": None}


def test_too_many_volumes_are_there_already() -> None:
    cluster = storage_cluster([make_node("n", {KEY: "0"})], (), [ebs_pod("running", "vol-1", node="n")])
    assert judged(cluster, ebs_pod("p", "vol-1")) == {"n": TOO_MANY}


def test_where_there_is_a_csi_node_the_volumes_are_its_drivers() -> None:
    nodes = [make_node(name, {KEY: "0"}) for name in ("migrated", "old")]
    cluster = storage_cluster(nodes, [make_csi_node("migrated")])
    assert judged(cluster, ebs_pod("p", "vol-1")) == {"migrated": None, "old": TOO_MANY}


@pytest.mark.parametrize(
    ("labels", "limit"),
    [
        ({}, 39),
        ({"node.kubernetes.io/instance-type": "m5.large"}, 25),
        ({"beta.kubernetes.io/instance-type": "z1d.large"}, 25),
        ({"node.kubernetes.io/instance-type": "m4.large"}, 39),
    ],
)
def test_the_default_limit_of_ebs_depends_on_the_instance_type(labels: dict[str, str], limit: int) -> None:
    cluster = storage_cluster([make_node("n", labels=labels)])
    disks = [f"vol-{number}" for number in range(limit + 1)]
    assert judged(cluster, ebs_pod("p", *disks[:-1])) == {"n": None}
    assert judged(cluster, ebs_pod("p", *disks)) == {"n": TOO_MANY}


@pytest.mark.parametrize(
    ("kind", "sources", "limit"),
    [
        (GCEPDLimits, lambda disk: Volume(gce_persistent_disk=GCEPersistentDisk(disk)), 16),
        (AzureDiskLimits, lambda disk: Volume(azure_disk=AzureDisk("/same", None, disk)), 16),
        (CinderLimits, lambda disk: Volume(cinder=VolumeID(disk)), 256),
    ],
)
def test_each_plugin_counts_its_own_disks(kind: type[InTreeVolumeLimits], sources: object, limit: int) -> None:
    assert callable(sources)
    cluster = storage_cluster([make_node("n")])
    volumes = [structs.replace(sources(f"disk-{number}"), name=f"v{number}") for number in range(limit + 1)]
    assert judged(cluster, with_volumes("p", *volumes[:-1], ebs("vol-1")), kind=kind) == {"n": None}
    assert judged(cluster, with_volumes("p", *volumes), kind=kind) == {"n": TOO_MANY}
    state = CycleState(ebs_pod("p", "vol-1"))
    assert kind(None, handle_of(cluster)).pre_filter(state, ebs_pod("p", "vol-1")) == SKIP


def test_an_environment_variable_replaces_the_default(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = storage_cluster([make_node("plain"), make_node("own", {KEY: "5"})])
    pod = ebs_pod("p", "vol-1", "vol-2")
    monkeypatch.setenv("KUBE_MAX_PD_VOLS", "1")
    assert judged(cluster, pod) == {"plain": TOO_MANY, "own": None}
    for malformed in ("0", "-1", "many"):
        caplog.clear()
        monkeypatch.setenv("KUBE_MAX_PD_VOLS", malformed)
        assert judged(cluster, pod) == {"plain": None, "own": None}
        assert caplog.messages == ["the environment variable KUBE_MAX_PD_VOLS must be a number above 0"]


def ebs_volume(name: str, disk: str) -> StorageObject:
    return make_volume(name, PersistentVolumeSpec(aws_elastic_block_store=AWSElasticBlockStore(disk)))


def test_a_claim_counts_as_the_volume_that_it_is_bound_to() -> None:
    storage = [make_claim("a", "pv-a"), ebs_volume("pv-a", "vol-1"), make_claim("b", "pv-b"), make_volume("pv-b")]
    cluster = two_at_most(*storage, pods=(ebs_pod("running", "vol-1", "vol-2", node="n"),))
    assert judged(cluster, with_claims("p", "a")) == {"n": None}
    assert judged(cluster, with_claims("p", "b")) == {"n": None}
    assert judged(cluster, with_volumes("p", ebs("vol-3"))) == {"n": TOO_MANY}


def test_a_claim_without_its_volume_counts_if_its_class_makes_such_volumes() -> None:
    made = make_class("ebs", "kubernetes.io/aws-ebs")
    claims = [make_claim(name, class_name="ebs") for name in ("a", "b")] + [make_claim("c", "gone", class_name="ebs")]
    cluster = two_at_most(made, *claims, make_claim("other", class_name="unknown"))
    assert judged(cluster, with_claims("p", "a", "a", "b")) == {"n": None}
    assert judged(cluster, with_claims("p", "a", "c", "other")) == {"n": None}
    assert judged(cluster, with_claims("p", "a", "b", "c")) == {"n": TOO_MANY}


def test_claims_that_cannot_be_read() -> None:
    cluster = two_at_most()
    missing = unresolvable('looking up PVC default/gone: persistentvolumeclaim "gone" not found')
    assert judged(cluster, with_claims("p", "gone")) == {"n": missing}
    assert judged(cluster, with_claims("p", "")) == {"n": Status(Code.ERROR, ("PersistentVolumeClaim had no name",))}


def test_what_is_wrong_with_claims_of_running_pods() -> None:
    stolen = make_claim("running-scratch", owner="somebody-else")
    running = with_volumes("running", Volume(name="scratch", ephemeral=Source()))
    running = structs.replace(running, spec=structs.replace(running.spec, node_name="n"))
    text = "PVC default/running-scratch was not created for pod default/running (pod is not owner)"
    cluster = two_at_most(stolen, pods=(running,))
    assert judged(cluster, ebs_pod("p", "vol-1")) == {"n": Status(Code.ERROR, (text,))}
    # A claim that is gone does not count, and the other volumes of its pod do.
    pod = with_volumes("running", *with_claims("running", "gone").spec.volumes, ebs("vol-1"), ebs("vol-2"))
    cluster = two_at_most(pods=(structs.replace(pod, spec=structs.replace(pod.spec, node_name="n")),))
    assert judged(cluster, ebs_pod("p", "vol-3")) == {"n": TOO_MANY}


def test_a_pod_without_such_volumes_is_not_judged() -> None:
    plugin = EBSLimits(None, handle_of(two_at_most()))
    for pod in (Pod(ObjectMeta(name="p")), with_volumes("p", Volume(cinder=VolumeID("disk")))):
        assert plugin.pre_filter(CycleState(pod), pod) == SKIP


def test_preemption_judges_each_node_in_its_own_world() -> None:
    offers: ResourceList = {KEY: "1"}
    running = [ebs_pod(f"on-{node}", "vol-1", node=node) for node in ("a", "b")]
    cluster = storage_cluster([make_node("a", offers), make_node("b", offers)], (), running)
    gone = cluster.view(None).changed(RowChanges([0], [slot_of(cluster, "on-a")], [-1]))
    assert judged(cluster, ebs_pod("p", "vol-2"), gone) == {"a": None, "b": TOO_MANY}
    back = gone.changed(RowChanges([0], [slot_of(cluster, "on-a")], [1]))
    assert judged(cluster, ebs_pod("p", "vol-2"), back) == {"a": TOO_MANY, "b": TOO_MANY}
    assert judged(cluster, ebs_pod("p", "vol-2"), gone.at(np.array([0]))) == {"a": None}


@pytest.mark.parametrize("name", ["EBSLimits", "GCEPDLimits", "AzureDiskLimits", "CinderLimits"])
def test_a_configuration_can_enable_the_plugin_in_multi_point(name: str) -> None:
    config = parse_config(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: {name}}}]}}}}}}]\n",
        ARGS_TYPES,
    )
    (plugins,) = effective_profiles(config, {plugin.name: extension_points(plugin) for plugin in IN_TREE}).values()
    assert {point for point, enabled in plugins.items() if name in {each.name for each in enabled}} == {
        "preFilter",
        "filter",
    }

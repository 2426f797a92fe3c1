from collections import Counter
from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from extender_service.cluster.nodes.volume_support import limit_key
from extender_service.cluster.pods.pod_volumes import disk_uses
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.volumes.attachments import Attachment, attachments
from extender_service.kube.types.core import ISCSI, AWSElasticBlockStore, PersistentVolumeClaimSource, Pod, Volume
from extender_service.kube.types.storage import (
    CSISource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    StorageClass,
)
from tests.support.objects import make_node
from tests.support.storage_objects import (
    ephemeral,
    make_claim,
    make_class,
    make_volume,
    with_claims,
    with_volumes,
)

CSI, EBS = "csi.example.com", "ebs.csi.aws.com"
Step = Callable[[Cluster], None]

names = st.sampled_from(["a", "b", "c"])
volumes = names.map(
    lambda name: Volume(name=name, persistent_volume_claim=PersistentVolumeClaimSource(name))
) | names.map(lambda name: Volume(name=name, aws_elastic_block_store=AWSElasticBlockStore(f"vol-{name}")))
pods = st.builds(
    lambda name, node, held: with_volumes(name, *held, node=node),
    st.sampled_from(["p", "q", "r", "s"]),
    st.sampled_from(["", "n0", "n1"]),
    st.lists(volumes, max_size=3),
)
specs = names.map(lambda name: PersistentVolumeSpec(csi=CSISource(CSI, name))) | names.flatmap(
    lambda name: st.sampled_from(
        [
            PersistentVolumeSpec(csi=CSISource(EBS, f"vol-{name}")),
            PersistentVolumeSpec(aws_elastic_block_store=AWSElasticBlockStore(f"vol-{name}")),
        ]
    )
)


def apply_pod(pod: Pod) -> Step:
    return lambda cluster: cluster.apply_pod(pod)


def remove_pod(name: str) -> Step:
    return lambda cluster: cluster.remove_pod(("default", name))


def apply_storage(item: PersistentVolume | PersistentVolumeClaim | StorageClass) -> Step:
    return lambda cluster: cluster.apply_storage(item)


def remove_claim(name: str) -> Step:
    return lambda cluster: cluster.remove_storage(PersistentVolumeClaim, ("default", name))


steps: st.SearchStrategy[Step] = st.one_of(
    pods.map(apply_pod),
    pods.map(apply_pod),
    st.sampled_from(["p", "q", "r", "s"]).map(remove_pod),
    st.builds(
        lambda name, volume: apply_storage(make_claim(name, volume, class_name="fast")),
        names,
        st.sampled_from(["", "v0", "v1", "v2"]),
    ),
    names.map(remove_claim),
    st.builds(lambda name, spec: apply_storage(make_volume(name, spec)), st.sampled_from(["v0", "v1", "v2"]), specs),
    st.sampled_from([CSI, "kubernetes.io/aws-ebs"]).map(lambda driver: apply_storage(make_class("fast", driver))),
)


def held_from_scratch(cluster: Cluster) -> dict[int, set[Attachment]]:
    return {
        slot: {item for item in attachments(cluster.storage, facts.volumes, set()) if isinstance(item, Attachment)}
        for slot, facts in enumerate(cluster.pods.facts)
        if facts is not None
    }


@settings(deadline=None)
@given(history=st.lists(steps, max_size=25))
def test_counts_are_those_of_the_pods_and_of_storage_as_they_are(history: list[Step]) -> None:
    cluster = Cluster()
    for name in ("n0", "n1"):
        cluster.apply_node(make_node(name))
    for step in history:
        step(cluster)
    held = held_from_scratch(cluster)
    for driver in (CSI, EBS):
        for migrated in (False, True):
            on_row: dict[int, set[str]] = {0: set(), 1: set()}
            holders: Counter[str] = Counter()
            for slot, found in held.items():
                handles = {item.handle for item in found if item.driver == driver and (migrated or not item.plugin)}
                holders.update(handles)
                on_row.get(int(cluster.pods.row[slot]), set()).update(handles)
                counted = cluster.held_volumes.volume_counts(np.array([slot]), limit_key(driver), migrated=migrated)
                assert counted.tolist() == [len(handles)]
            attached = cluster.held_volumes.attached(limit_key(driver), migrated=migrated)
            assert np.pad(attached, (0, 2))[:2].tolist() == [len(on_row[0]), len(on_row[1])]
            for handle, count in holders.items():
                assert len(cluster.held_volumes.holders(driver, handle, migrated=migrated)) == count


@settings(deadline=None)
@given(history=st.lists(steps, max_size=25))
def test_pods_share_a_volume_that_another_pod_holds(history: list[Step]) -> None:
    cluster = Cluster()
    for step in history:
        step(cluster)
    held = {slot: {(item.driver, item.handle) for item in found} for slot, found in held_from_scratch(cluster).items()}
    for slot, found in held.items():
        others = {name for other, names_of_other in held.items() if other != slot for name in names_of_other}
        assert cluster.held_volumes.share(np.array([slot])).tolist() == [bool(found & others)]


@settings(deadline=None)
@given(history=st.lists(steps, max_size=25))
def test_nothing_is_left_of_pods_that_are_gone(history: list[Step]) -> None:
    cluster = Cluster()
    for step in history:
        step(cluster)
    for key in cluster.pod_keys():
        cluster.remove_pod(key)
    held = cluster.held_volumes
    assert not held._held
    assert not held._rows
    assert not held._slots._slots
    assert not held._dependents._slots
    assert not held.disks._slots
    assert not held.claims._slots
    assert not held.claim_names._slots
    assert not held._shared.array.any()


def test_a_running_pods_foreign_claim_is_a_fault_until_it_is_its_own() -> None:
    cluster = Cluster()
    cluster.apply_pod(with_volumes("p", ephemeral("v"), node="n"))
    slot = cluster._slot_by_key["default", "p"]
    assert not cluster.held_volumes.faults
    cluster.apply_storage(make_claim("p-v", owner="somebody"))
    assert [fault.text for fault in cluster.held_volumes.faults[slot]] == [
        "PVC default/p-v was not created for pod default/p (pod is not owner)"
    ]
    cluster.apply_storage(make_claim("p-v", owner="uid-of-p"))
    assert not cluster.held_volumes.faults


def test_claims_are_found_by_name_in_any_namespace() -> None:
    cluster = Cluster()
    cluster.apply_pod(with_claims("p", "c", "c", "d"))
    cluster.apply_pod(with_claims("q", "c", namespace="other"))
    held = cluster.held_volumes
    p, q = cluster._slot_by_key["default", "p"], cluster._slot_by_key["other", "q"]
    assert held.claims.slots(("default", "c")).tolist() == [p]
    assert sorted(held.claim_names.slots("c").tolist()) == sorted([p, q])
    assert held.claim_count(p, frozenset({"c"})) == 2
    assert held.claim_count(q, frozenset({"c", "d"})) == 1


def test_the_volumes_of_a_pod_are_told_by_driver_and_handle() -> None:
    cluster = Cluster()
    cluster.apply_storage(make_volume("v", driver=CSI, handle="h"))
    cluster.apply_storage(make_claim("data", "v"))
    in_tree = Volume(name="disk", aws_elastic_block_store=AWSElasticBlockStore("vol-1"))
    claim = Volume(name="data", persistent_volume_claim=PersistentVolumeClaimSource("data"))
    cluster.apply_pod(with_volumes("p", claim, in_tree))
    cluster.apply_pod(with_volumes("none"))
    p, none = (cluster._slot_by_key["default", name] for name in ("p", "none"))
    held = cluster.held_volumes
    assert held.held_by(p, limit_key(CSI), migrated=False) == {(CSI, "h")}
    assert held.held_by(p, limit_key(EBS), migrated=False) == set()
    assert held.held_by(p, limit_key(EBS), migrated=True) == {(EBS, "vol-1")}
    assert held.held_by(none, limit_key(CSI), migrated=True) == set()
    assert held.claim_count(p, frozenset({"data"})) == 1
    assert held.claim_count(none, frozenset({"data"})) == 0


def test_a_single_volume_is_shared_from_its_second_pod_to_its_last_but_one() -> None:
    cluster = Cluster()
    disk = Volume(name="disk", aws_elastic_block_store=AWSElasticBlockStore("vol-1"))
    for name in ("p", "q"):
        cluster.apply_pod(with_volumes(name, disk))
    p, q = (cluster._slot_by_key["default", name] for name in ("p", "q"))
    assert cluster.held_volumes.share(np.array([p, q])).tolist() == [True, True]
    cluster.remove_pod(("default", "q"))
    assert cluster.held_volumes.share(np.array([p])).tolist() == [False]


def test_a_disk_that_no_driver_attaches_is_held_too() -> None:
    cluster = Cluster()
    cluster.apply_pod(with_volumes("p", Volume(name="disk", iscsi=ISCSI("iqn.1"))))
    cluster.apply_pod(with_volumes("q"))
    held = cluster.held_volumes
    (disk,) = disk_uses(Volume(name="disk", iscsi=ISCSI("iqn.1")))
    assert held.disks.slots(disk).tolist() == [cluster._slot_by_key["default", "p"]]
    assert len(held._held) == 1

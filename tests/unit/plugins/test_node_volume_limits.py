import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.hypothetical import RowChanges
from extender_service.cluster.view.node_view import NodeView
from extender_service.cluster.volumes.storage_table import StorageObject
from extender_service.config.rules import rules_of
from extender_service.framework.cluster_event import (
    CSI_NODE,
    VOLUME_ATTACHMENT,
    ActionType,
    ClusterEvent,
    QueueingHint,
)
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.status import SKIP, Code, Status, unresolvable, unschedulable
from extender_service.kube.types.core import AWSElasticBlockStore, Pod, ResourceList, Source, Volume, VolumeID
from extender_service.kube.types.storage import CSIDriver, VolumeAttachment
from extender_service.plugins.node_volume_limits import TOO_MANY, NodeVolumeLimits
from tests.support.clusters.volume_worlds import handle_of, slot_of, storage_cluster, verdicts
from tests.support.objects import make_node
from tests.support.storage_objects import (
    ephemeral,
    make_attachment,
    make_claim,
    make_class,
    make_csi_node,
    make_driver,
    make_volume,
    with_claims,
    with_volumes,
)

CSI, EBS, PORTWORX = "csi.example.com", "ebs.csi.aws.com", "pxd.portworx.com"


def bound(*names: str) -> list[StorageObject]:
    """Claims, each bound to a volume of the same name."""
    return [item for name in names for item in (make_claim(name, name), make_volume(name))]


def ebs(name: str) -> Volume:
    return Volume(name=name, aws_elastic_block_store=AWSElasticBlockStore(name))


def judged(cluster: Cluster, pod: Pod, nodes: NodeView | None = None) -> dict[str, Status | None]:
    plugin, state = NodeVolumeLimits(None, handle_of(cluster)), CycleState(pod)
    assert plugin.pre_filter(state, pod) is None
    return verdicts(plugin, state, pod, nodes or cluster.view(None))


def test_a_node_takes_no_more_volumes_than_its_limit() -> None:
    storage = [*bound("a", "b", "c"), make_csi_node("two", {CSI: 2}), make_csi_node("one", {CSI: 1})]
    pods = [with_claims(f"on-{name}", "a", node=name) for name in ("two", "one", "any")]
    cluster = storage_cluster([make_node("two"), make_node("one"), make_node("any")], storage, pods)
    assert judged(cluster, with_claims("p", "b")) == {"two": None, "one": TOO_MANY, "any": None}
    assert judged(cluster, with_claims("p", "b", "c")) == {"two": TOO_MANY, "one": TOO_MANY, "any": None}


def test_a_volume_that_is_attached_already_takes_no_more_room() -> None:
    cluster = storage_cluster(
        [make_node("n")], [*bound("a"), make_csi_node("n", {CSI: 1})], [with_claims("other", "a", node="n")]
    )
    assert judged(cluster, with_claims("p", "a")) == {"n": None}


def test_a_node_may_say_its_limit_itself() -> None:
    offers: ResourceList = {"attachable-volumes-csi-csi.example.com": "0"}
    assert judged(storage_cluster([make_node("n", offers)], bound("a")), with_claims("p", "a")) == {"n": TOO_MANY}


def test_from_1_32_on_only_csi_nodes_have_limits() -> None:
    offers: ResourceList = {"attachable-volumes-csi-csi.example.com": "0"}
    nodes, storage = [make_node("n", offers), make_node("m", offers)], [*bound("a"), make_csi_node("m")]
    for minor, status in (31, TOO_MANY), (32, None), (37, None):
        cluster = storage_cluster(nodes, storage, rules=rules_of(minor))
        assert judged(cluster, with_claims("p", "a")) == {"n": status, "m": status}
    cluster = storage_cluster(nodes, [*storage, make_csi_node("n", {CSI: 0})], rules=rules_of(37))
    assert judged(cluster, with_claims("p", "a")) == {"n": TOO_MANY, "m": None}


def test_from_1_36_on_volumes_of_portworx_count_without_an_annotation() -> None:
    disk = Volume(name="v", portworx_volume=VolumeID("v"))
    for minor, status in (35, None), (36, TOO_MANY):
        cluster = storage_cluster([make_node("n")], [make_csi_node("n", {PORTWORX: 0})], rules=rules_of(minor))
        assert judged(cluster, with_volumes("p", disk)) == {"n": status}


def test_from_1_32_on_a_volume_stays_attached_while_there_is_a_volume_attachment() -> None:
    storage = [*bound("a", "b"), make_csi_node("n", {CSI: 1}), make_attachment("x", "n", "a")]
    for minor, status in (31, None), (32, TOO_MANY), (37, TOO_MANY):
        cluster = storage_cluster([make_node("n"), make_node("m")], storage, rules=rules_of(minor))
        assert judged(cluster, with_claims("p", "b")) == {"n": status, "m": None}
    # A pod whose own volume is still attached there is new, as in the reference.
    assert judged(cluster, with_claims("p", "a")) == {"n": TOO_MANY, "m": None}
    cluster.apply_pod(with_claims("other", "a", node="n"))
    assert judged(cluster, with_claims("p", "a")) == {"n": None, "m": None}
    # Without its last pod, it is attached as before.
    gone = RowChanges([0], [slot_of(cluster, "other")], [-1])
    assert judged(cluster, with_claims("p", "b"), cluster.view(None).changed(gone)) == {"n": TOO_MANY, "m": None}
    cluster.remove_storage(VolumeAttachment, ("", "x"))
    assert judged(cluster, with_claims("p", "b"), cluster.view(None).changed(gone)) == {"n": None, "m": None}


def test_what_is_read_depends_on_the_release() -> None:
    assert [VolumeAttachment in NodeVolumeLimits.reads_in(rules_of(minor)) for minor in (31, 32)] == [False, True]
    assert [CSIDriver in NodeVolumeLimits.reads_in(rules_of(minor)) for minor in (36, 37)] == [False, True]


def test_later_releases_try_again_when_an_attachment_ends_or_a_limit_is_raised() -> None:
    attachment_ends = ClusterEvent(VOLUME_ATTACHMENT, ActionType.DELETE)
    changed = ClusterEvent(CSI_NODE, ActionType.UPDATE)
    plugins = [NodeVolumeLimits(None, handle_of(Cluster(rules_of(minor)))) for minor in (31, 32, 33)]
    assert [attachment_ends in plugin.retry_on for plugin in plugins] == [False, True, True]
    assert [changed in plugin.retry_on for plugin in plugins] == [False, False, True]
    pod = with_claims("p", "a")
    for old, new, helps in [
        ({CSI: 1}, {CSI: 2}, True),
        ({CSI: 2}, {CSI: 2, "other": 0}, False),
        ({CSI: 2}, {CSI: 1}, False),
        ({}, {CSI: 1}, True),
    ]:
        said = plugins[-1].queueing_hint(changed, pod, make_csi_node("n", old), make_csi_node("n", new))
        assert said is QueueingHint.queue_if(helps)
    assert plugins[-1].queueing_hint(attachment_ends, pod, make_attachment("x", "n", "a"), None) is QueueingHint.QUEUE


def not_installed(driver: str) -> Status:
    return unschedulable(f"{driver} CSI driver is not installed on the node")


def test_from_1_37_on_a_driver_may_keep_its_pods_off_nodes_that_do_not_have_it() -> None:
    nodes = [make_node(name) for name in ("has", "lacks", "bare")]
    storage = [*bound("a"), make_csi_node("has", {CSI: 1}), make_csi_node("lacks", {"other": 1})]
    insists, silent = make_driver(CSI, insists=True), make_driver(CSI)
    for minor, gates, driver, rejects in [
        (36, {}, insists, False),
        (37, {}, silent, False),
        (37, {}, insists, True),
        (37, {"VolumeLimitScaling": False}, insists, False),
        # In 1.35, where the gate is off by default, every driver insists.
        (35, {"VolumeLimitScaling": True}, silent, True),
        (36, {"VolumeLimitScaling": True}, silent, False),
    ]:
        cluster = storage_cluster(nodes, [*storage, driver], rules=rules_of(minor, gates))
        status = not_installed(CSI) if rejects else None
        assert judged(cluster, with_claims("p", "a")) == {"has": None, "lacks": status, "bare": status}


def test_a_missing_driver_is_the_reason_before_any_limit() -> None:
    storage = [*bound("a"), make_claim("b", "b"), make_volume("b", driver="late"), make_csi_node("n", {CSI: 0})]
    drivers = [make_driver("late", insists=True), make_driver(CSI, insists=True), make_driver(EBS, insists=True)]
    cluster = storage_cluster([make_node("n"), make_node("bare")], [*storage, *drivers], rules=rules_of(37))
    assert judged(cluster, with_claims("p", "a", "b")) == {"n": not_installed("late"), "bare": not_installed(CSI)}
    assert judged(cluster, with_claims("p", "a")) == {"n": TOO_MANY, "bare": not_installed(CSI)}
    # An in-tree volume is its driver's where there is a CSINode.
    assert judged(cluster, with_volumes("p", ebs("vol-1"))) == {"n": not_installed(EBS), "bare": None}


def test_each_driver_has_its_own_limit() -> None:
    storage = [*bound("a", "b"), make_claim("c", "c"), make_volume("c", driver="other"), make_csi_node("n", {CSI: 1})]
    cluster = storage_cluster([make_node("n")], storage, [with_claims("running", "a", node="n")])
    assert judged(cluster, with_claims("p", "c")) == {"n": None}
    assert judged(cluster, with_claims("p", "c", "b")) == {"n": TOO_MANY}


def test_a_claim_that_will_be_provisioned_counts() -> None:
    storage: list[StorageObject] = [make_claim("a", class_name="x"), make_claim("b", class_name="x"), make_class("x")]
    cluster = storage_cluster([make_node("n")], [*storage, make_csi_node("n", {CSI: 1})])
    assert judged(cluster, with_claims("p", "a")) == {"n": None}
    assert judged(cluster, with_claims("p", "a", "b")) == {"n": TOO_MANY}
    assert judged(cluster, with_claims("p", "a", "a")) == {"n": None}


def test_an_in_tree_volume_counts_where_there_is_a_csi_node() -> None:
    offers: ResourceList = {"attachable-volumes-csi-ebs.csi.aws.com": "0"}
    nodes = [make_node("migrated", offers), make_node("old", offers)]
    cluster = storage_cluster(nodes, [make_csi_node("migrated")])
    assert judged(cluster, with_volumes("p", ebs("vol-1"))) == {"migrated": TOO_MANY, "old": None}


def test_an_in_tree_volume_is_the_same_as_its_drivers() -> None:
    storage: list[StorageObject] = [
        make_claim("c", "v"),
        make_volume("v", driver=EBS, handle="vol-1"),
        make_csi_node("n", {EBS: 1}),
    ]
    cluster = storage_cluster([make_node("n")], storage, [with_claims("other", "c", node="n")])
    assert judged(cluster, with_volumes("p", ebs("vol-1"))) == {"n": None}
    assert judged(cluster, with_volumes("p", ebs("vol-2"))) == {"n": TOO_MANY}


def test_a_claim_that_is_not_there_rejects_nodes_for_good() -> None:
    missing = unresolvable('looking up PVC default/c: persistentvolumeclaim "c" not found')
    assert judged(storage_cluster([make_node("n")]), with_claims("p", "c")) == {"n": missing}


def test_a_volume_that_cannot_be_judged_is_an_error_where_it_matters() -> None:
    cluster = storage_cluster([make_node("migrated"), make_node("old")], [make_csi_node("migrated")])
    found = judged(cluster, with_volumes("p", ebs("aws://zone/x")))
    assert found["old"] is None
    assert found["migrated"] is not None
    assert found["migrated"].code == Code.ERROR
    foreign = judged(storage_cluster([make_node("n")], [make_claim("p-v")]), with_volumes("p", ephemeral("v")))
    fault = "PVC default/p-v was not created for pod default/p (pod is not owner)"
    assert foreign == {"n": Status(Code.ERROR, (fault,))}


def test_a_running_pods_fault_is_an_error_on_its_node() -> None:
    storage = [*bound("a"), make_claim("other-v"), make_csi_node("n", {CSI: 5}), make_csi_node("m", {CSI: 5})]
    pods = [with_volumes("other", ephemeral("v"), node="n")]
    cluster = storage_cluster([make_node("n"), make_node("m"), make_node("unlimited")], storage, pods)
    fault = "PVC default/other-v was not created for pod default/other (pod is not owner)"
    assert judged(cluster, with_claims("p", "a")) == {"n": Status(Code.ERROR, (fault,)), "m": None, "unlimited": None}
    gone = cluster.view(None).changed(RowChanges([0], [slot_of(cluster, "other")], [-1]))
    assert judged(cluster, with_claims("p", "a"), gone) == {"n": None, "m": None, "unlimited": None}


@pytest.mark.parametrize(
    ("volumes", "is_skipped"),
    [
        ([], True),
        ([Volume(name="v")], True),
        ([Volume(name="v", azure_file=Source())], False),
        ([ephemeral("v")], False),
    ],
)
def test_pods_without_volumes_that_could_count_are_skipped(volumes: list[Volume], is_skipped: bool) -> None:
    pod = with_volumes("p", *volumes)
    plugin = NodeVolumeLimits(None, handle_of(Cluster()))
    assert (plugin.pre_filter(CycleState(pod), pod) == SKIP) is is_skipped


claims = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=3)


@settings(deadline=None)
@given(
    running=st.lists(st.tuples(claims, st.sampled_from(["n0", "n1"])), max_size=5),
    nominated=st.lists(claims, max_size=2),
    wanted=claims.filter(bool),
    limit=st.integers(0, 4),
    attached=st.sets(st.tuples(st.sampled_from(["a", "b", "c", "d"]), st.sampled_from(["n0", "n1", "gone"]))),
    data=st.data(),
)
def test_each_node_is_judged_with_its_own_pods(
    running: list[tuple[list[str], str]],
    nominated: list[list[str]],
    wanted: list[str],
    limit: int,
    attached: set[tuple[str, str]],
    data: st.DataObject,
) -> None:
    storage = [*bound("a", "b", "c", "d"), make_csi_node("n0", {CSI: limit}), make_csi_node("n1", {CSI: limit})]
    storage += [make_attachment(f"{volume}-{node}", node, volume) for volume, node in sorted(attached)]
    rules = rules_of(data.draw(st.sampled_from([31, 37])))
    pods = [with_claims(f"r{number}", *held, node=node) for number, (held, node) in enumerate(running)]
    coming = [with_claims(f"c{number}", *held) for number, held in enumerate(nominated)]
    nodes = [make_node("n0"), make_node("n1")]
    cluster = storage_cluster(nodes, storage, [*pods, *coming], rules=rules)
    gone = data.draw(st.sets(st.sampled_from([pod.metadata.name for pod in pods]))) if pods else set()
    changes = [
        (int(pod.spec.node_name[1]), slot_of(cluster, pod.metadata.name), -1)
        for pod in pods
        if pod.metadata.name in gone
    ]
    changes += [(0, slot_of(cluster, pod.metadata.name), 1) for pod in coming]
    positions, slots, signs = ([change[part] for change in changes] for part in range(3))
    view = cluster.view(None).changed(RowChanges(positions, slots, signs))

    stay = [pod for pod in pods if pod.metadata.name not in gone]
    come = [with_claims(pod.metadata.name, *held, node="n0") for pod, held in zip(coming, nominated, strict=True)]
    really = storage_cluster(nodes, storage, [*stay, *come], rules=rules)
    assert judged(cluster, with_claims("p", *wanted), view) == judged(really, with_claims("p", *wanted))

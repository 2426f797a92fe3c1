import pytest

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.hypothetical import RowChanges
from extender_service.cluster.view.node_view import NodeView
from extender_service.config.rules import rules_of
from extender_service.framework.cluster_event import NODE, ActionType, ClusterEvent
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.status import SKIP, Status, unresolvable
from extender_service.kube.types.core import ISCSI, RBD, AWSElasticBlockStore, GCEPersistentDisk, Pod, Volume
from extender_service.plugins.volume_restrictions import CLAIM_CONFLICT, DISK_CONFLICT, VolumeRestrictions
from tests.support.clusters.volume_worlds import handle_of, slot_of, storage_cluster, verdicts
from tests.support.objects import make_node
from tests.support.storage_objects import make_claim, with_claims, with_volumes

ONCE = ("ReadWriteOncePod",)


def gce(name: str, *, read_only: bool = False) -> Volume:
    return Volume(name="v", gce_persistent_disk=GCEPersistentDisk(name, read_only))


def rbd(monitors: tuple[str, ...], *, read_only: bool = False, pool: str = "rbd", image: str = "i") -> Volume:
    return Volume(name="v", rbd=RBD(monitors, pool, image, read_only))


def iscsi(iqn: str, *, read_only: bool = False) -> Volume:
    return Volume(name="v", iscsi=ISCSI(iqn, read_only))


def ebs(volume_id: str) -> Volume:
    return Volume(name="v", aws_elastic_block_store=AWSElasticBlockStore(volume_id))


def judged(cluster: Cluster, pod: Pod, nodes: NodeView | None = None) -> dict[str, Status | None]:
    plugin = VolumeRestrictions(None, handle_of(cluster))
    state = CycleState(pod)
    assert plugin.pre_filter(state, pod) is None
    return verdicts(plugin, state, pod, nodes or cluster.view(None))


@pytest.mark.parametrize(
    ("wanted", "used", "conflicts"),
    [
        (gce("d"), gce("d"), True),
        (gce("d", read_only=True), gce("d"), True),
        (gce("d"), gce("d", read_only=True), True),
        (gce("d", read_only=True), gce("d", read_only=True), False),
        (gce("d"), gce("e"), False),
        (ebs("vol-1"), ebs("vol-1"), True),
        (ebs("vol-1"), ebs("vol-2"), False),
        (iscsi("a"), iscsi("a"), True),
        (iscsi("a", read_only=True), iscsi("a", read_only=True), False),
        (rbd(("m1", "m2")), rbd(("m2", "m3")), True),
        (rbd(("m1",)), rbd(("m2",)), False),
        (rbd(("m1",)), rbd(("m1",), image="j"), False),
        (rbd(("m1",)), rbd(("m1",), pool="q"), False),
        (rbd(("m1",), read_only=True), rbd(("m1",), read_only=True), False),
        (gce("d"), iscsi("d"), False),
    ],
)
def test_when_disks_conflict(wanted: Volume, used: Volume, conflicts: bool) -> None:
    cluster = storage_cluster([make_node("a"), make_node("b")], pods=[with_volumes("other", used, node="a")])
    assert judged(cluster, with_volumes("p", wanted)) == {"a": DISK_CONFLICT if conflicts else None, "b": None}


def test_a_disk_is_free_once_all_that_have_it_are_gone() -> None:
    pods = [with_volumes("p1", gce("d"), node="a"), with_volumes("p2", gce("d"), node="a")]
    cluster = storage_cluster([make_node("a")], pods=pods)
    first, second = slot_of(cluster, "p1"), slot_of(cluster, "p2")
    one_gone = cluster.view(None).changed(RowChanges([0], [first], [-1]))
    assert judged(cluster, with_volumes("p", gce("d")), one_gone) == {"a": DISK_CONFLICT}
    both_gone = cluster.view(None).changed(RowChanges([0, 0], [first, second], [-1, -1]))
    assert judged(cluster, with_volumes("p", gce("d")), both_gone) == {"a": None}


def test_a_pod_that_is_to_come_has_its_disks() -> None:
    cluster = storage_cluster([make_node("a"), make_node("b")], pods=[with_volumes("nominated", gce("d"))])
    nodes = cluster.view(None).changed(RowChanges([1], [slot_of(cluster, "nominated")], [1]))
    assert judged(cluster, with_volumes("p", gce("d")), nodes) == {"a": None, "b": DISK_CONFLICT}


def test_a_claim_for_one_pod_that_is_in_use_rejects_all_nodes() -> None:
    cluster = storage_cluster(
        [make_node("a"), make_node("b")],
        [make_claim("c", "v", modes=ONCE)],
        [with_claims("other", "c", node="a")],
    )
    assert judged(cluster, with_claims("p", "c")) == {"a": CLAIM_CONFLICT, "b": CLAIM_CONFLICT}


def test_taking_a_user_of_the_name_off_a_node_frees_the_claim_there() -> None:
    # As in kube-scheduler, whatever the namespace, and as often as the pod names it.
    cluster = storage_cluster(
        [make_node("a"), make_node("b")],
        [make_claim("c", "v", modes=ONCE)],
        [with_claims("other", "c", node="a"), with_claims("elsewhere", "c", node="b", namespace="team")],
    )
    slots = [slot_of(cluster, "elsewhere", "team")]
    nodes = cluster.view(None).changed(RowChanges([1], slots, [-1]))
    assert judged(cluster, with_claims("p", "c"), nodes) == {"a": CLAIM_CONFLICT, "b": None}
    nodes = cluster.view(None).changed(RowChanges([0, 0], [slot_of(cluster, "other"), *slots], [-1, 1]))
    assert judged(cluster, with_claims("p", "c"), nodes) == {"a": CLAIM_CONFLICT, "b": CLAIM_CONFLICT}


@pytest.mark.parametrize("node", ["", "unknown"])
def test_a_claim_of_a_pod_on_no_node_is_not_in_use(node: str) -> None:
    cluster = storage_cluster(
        [make_node("a")], [make_claim("c", "v", modes=ONCE)], [with_claims("other", "c", node=node)]
    )
    pod = with_claims("p", "c")
    assert VolumeRestrictions(None, handle_of(cluster)).pre_filter(CycleState(pod), pod) == SKIP


def test_pods_without_disks_or_claims_for_one_pod_are_skipped() -> None:
    cluster = storage_cluster([make_node("a")], [make_claim("c", "v")], [with_claims("other", "c", node="a")])
    plugin = VolumeRestrictions(None, handle_of(cluster))
    for pod in (with_claims("p", "c"), with_volumes("p"), with_volumes("p", Volume(name="v"))):
        assert plugin.pre_filter(CycleState(pod), pod) == SKIP


def test_a_claim_that_is_not_there_rejects_the_pod() -> None:
    pod = with_claims("p", "nobody")
    plugin = VolumeRestrictions(None, handle_of(storage_cluster([make_node("a")])))
    assert plugin.pre_filter(CycleState(pod), pod) == unresolvable('persistentvolumeclaim "nobody" not found')


def test_filter_needs_prefilter() -> None:
    cluster = storage_cluster([make_node("a")])
    pod = with_volumes("p", gce("d"))
    with pytest.raises(PluginError, match='cannot read "PreFilterVolumeRestrictions" from cycleState'):
        VolumeRestrictions(None, handle_of(cluster)).filter(CycleState(pod), pod, cluster.view(None))


@pytest.mark.parametrize(
    ("minor", "hints", "wakes"), [(31, False, False), (32, False, True), (33, False, True), (33, True, False)]
)
def test_other_labels_of_a_node_wake_a_pod_in_later_releases_without_hints(
    minor: int, hints: bool, wakes: bool
) -> None:
    cluster = storage_cluster([], rules=rules_of(minor, {"SchedulerQueueingHints": hints}))
    labelled = ClusterEvent(NODE, ActionType.UPDATE_NODE_LABEL)
    plugin = VolumeRestrictions(None, handle_of(cluster))
    assert any(event.matches(labelled) for event in plugin.retry_on) is wakes

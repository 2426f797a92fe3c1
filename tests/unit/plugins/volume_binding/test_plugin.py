import numpy as np
import pytest

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.volumes.storage_table import StorageObject
from extender_service.config.rules import DEFAULT_RULES, Rules, rules_of
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.status import SKIP, Code, Status, unresolvable
from extender_service.kube.types.core import (
    AWSElasticBlockStore,
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    SelectorRequirement,
)
from extender_service.kube.types.storage import PersistentVolume, PersistentVolumeSpec, VolumeNodeAffinity
from extender_service.plugins.shared.shape import UtilizationShapePoint
from extender_service.plugins.volume_binding.args import VolumeBindingArgs
from extender_service.plugins.volume_binding.plugin import UNBOUND_IMMEDIATE, VolumeBinding
from tests.support.clusters.volume_worlds import handle_of, storage_cluster, verdicts
from tests.support.objects import make_node
from tests.support.storage_objects import (
    make_capacity,
    make_claim,
    make_class,
    make_csi_node,
    make_driver,
    make_volume,
    with_claims,
    with_volumes,
)

ZONE, EBS_ZONE = "topology.kubernetes.io/zone", "topology.ebs.csi.aws.com/zone"
EBS = "kubernetes.io/aws-ebs"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
CONFLICT = "node(s) had volume node affinity conflict"
NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


def cluster_with(*storage: StorageObject, rules: Rules = DEFAULT_RULES) -> Cluster:
    return storage_cluster([make_node(name, labels={"host": name}) for name in ("a", "b")], storage, rules=rules)


def judged(cluster: Cluster, *claims: str) -> dict[str, Status | None]:
    pod = with_claims("p", *claims)
    plugin, state = VolumeBinding(VolumeBindingArgs(), handle_of(cluster)), CycleState(pod)
    assert plugin.pre_filter(state, pod) is None
    return verdicts(plugin, state, pod, cluster.view(None))


def on_both(*reasons: str) -> dict[str, Status | None]:
    return dict.fromkeys("ab", unresolvable(*reasons))


def test_a_pod_without_claims_is_skipped() -> None:
    pod = with_volumes("p")
    assert VolumeBinding(VolumeBindingArgs(), handle_of(Cluster())).pre_filter(CycleState(pod), pod) == SKIP


def test_a_claim_that_should_be_bound_by_now_rejects_the_pod() -> None:
    cluster = cluster_with(make_claim("c", class_name="x"), make_class("x", mode="Immediate"))
    pod = with_claims("p", "c")
    plugin = VolumeBinding(VolumeBindingArgs(), handle_of(cluster))
    assert plugin.pre_filter(CycleState(pod), pod) == UNBOUND_IMMEDIATE
    missing = with_claims("p", "nobody")
    reason = 'persistentvolumeclaim "nobody" not found'
    assert plugin.pre_filter(CycleState(missing), missing) == unresolvable(reason)


def test_local_volumes_name_the_only_nodes_in_question() -> None:
    volume = make_volume("v", only={"kubernetes.io/hostname": ["a", "gone"]})
    pod = with_claims("p", "c")
    plugin = VolumeBinding(VolumeBindingArgs(), handle_of(cluster_with(make_claim("c", "v"), volume)))
    assert plugin.pre_filter(CycleState(pod), pod) == {"a", "gone"}


def test_nodes_that_cannot_reach_a_bound_volume_are_rejected() -> None:
    cluster = cluster_with(make_claim("c", "v"), make_volume("v", only={"host": ["a"]}))
    assert judged(cluster, "c") == {"a": None, "b": unresolvable(CONFLICT)}


def test_a_bound_volume_that_is_gone_rejects_all_nodes() -> None:
    assert judged(cluster_with(make_claim("c", "gone")), "c") == on_both(NO_VOLUME)


def test_the_first_bound_claim_that_fails_settles_it() -> None:
    cluster = cluster_with(make_claim("c", "v"), make_volume("v", only={"host": ["a"]}), make_claim("d", "gone"))
    assert judged(cluster, "c", "d") == {"a": unresolvable(NO_VOLUME), "b": unresolvable(CONFLICT)}
    assert judged(cluster, "d", "c") == on_both(NO_VOLUME)


def test_a_claim_is_bound_or_its_volume_is_made() -> None:
    free = make_volume("v", class_name="x", only={"host": ["a"]})
    claim = make_claim("c", class_name="x")
    assert judged(cluster_with(claim, make_class("x", NO_PROVISIONER), free), "c") == {
        "a": None,
        "b": unresolvable(NOTHING_TO_BIND),
    }
    assert judged(cluster_with(claim, make_class("x"), free), "c") == {"a": None, "b": None}
    only_b = make_class("x", only={"host": "b"})
    assert judged(cluster_with(claim, only_b), "c") == {"a": unresolvable(NOTHING_TO_BIND), "b": None}


def test_a_volume_is_made_where_there_is_space() -> None:
    storage: list[StorageObject] = [
        make_claim("c", class_name="x"),
        make_class("x"),
        make_driver("csi.example.com", storage_capacity=True),
    ]
    assert judged(cluster_with(*storage, make_capacity("k", "x", "1Mi", None)), "c") == on_both(NO_SPACE)


def test_a_node_can_fail_by_bound_and_by_other_claims() -> None:
    cluster = cluster_with(make_claim("c", "gone"), make_claim("d", class_name="x"), make_class("x", NO_PROVISIONER))
    assert judged(cluster, "d", "c") == on_both(NOTHING_TO_BIND, NO_VOLUME)


def test_a_claim_whose_volume_is_being_made_stays_with_its_node() -> None:
    selected = {"volume.kubernetes.io/selected-node": "a"}
    claim = make_claim("c", class_name="x", annotations=selected)
    free = make_volume("v", class_name="x")
    assert judged(cluster_with(claim, make_class("x"), free), "c") == {"a": None, "b": unresolvable(NOTHING_TO_BIND)}
    # It is not bound to another volume in the meantime.
    assert judged(cluster_with(claim, make_class("x", NO_PROVISIONER), free), "c") == on_both(NOTHING_TO_BIND)


def test_a_claim_that_cannot_be_read_is_an_error_unless_the_node_is_out_anyway() -> None:
    selected = make_claim("c", class_name="x", annotations={"volume.kubernetes.io/selected-node": "a"})
    cluster = cluster_with(selected, make_claim("d", class_name="x", attributes_class="gold"), make_class("x"))
    found = judged(cluster, "c", "d")
    assert found["b"] == unresolvable(NOTHING_TO_BIND)
    assert found["a"] is not None
    assert found["a"].code == Code.ERROR


def in_tree(volume_id: str, zone: str, name: str = "v") -> PersistentVolume:
    affinity = VolumeNodeAffinity(NodeSelector((NodeSelectorTerm((SelectorRequirement(ZONE, "In", (zone,)),)),)))
    return make_volume(
        name,
        PersistentVolumeSpec(aws_elastic_block_store=AWSElasticBlockStore(volume_id), node_affinity=affinity),
    )


def test_where_a_plugin_is_migrated_the_drivers_label_counts() -> None:
    nodes = [
        make_node("migrated", labels={ZONE: "a"}),
        make_node("migrated-here", labels={ZONE: "b", EBS_ZONE: "a"}),
        make_node("not-migrated", labels={ZONE: "a", EBS_ZONE: "b"}),
    ]
    csi_nodes = [make_csi_node(name, migrated=EBS) for name in ("migrated", "migrated-here")]
    storage: list[StorageObject] = [
        make_claim("c", "v"),
        in_tree("vol-1", "a"),
        *csi_nodes,
        make_csi_node("not-migrated"),
    ]
    assert judged(storage_cluster(nodes, storage), "c") == {
        "migrated": unresolvable(CONFLICT),
        "migrated-here": None,
        "not-migrated": None,
    }


def test_a_volume_that_its_driver_cannot_take_over_is_an_error_where_it_is_migrated() -> None:
    nodes = [make_node("migrated", labels={ZONE: "a"}), make_node("other", labels={ZONE: "a"})]
    storage: list[StorageObject] = [
        make_claim("c", "v"),
        in_tree("aws://a/x", "a"),
        make_csi_node("migrated", migrated=EBS),
    ]
    error = (
        "could not translate pv: failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume "
        "(aws://a/x)"
    )
    assert judged(storage_cluster(nodes, storage), "c") == {"migrated": Status(Code.ERROR, (error,)), "other": None}


def test_of_two_volumes_that_drivers_cannot_take_over_the_first_is_the_error() -> None:
    nodes = [make_node("migrated", labels={ZONE: "a"})]
    storage: list[StorageObject] = [
        make_csi_node("migrated", migrated=EBS),
        *(make_claim(f"c{number}", f"v{number}") for number in (1, 2)),
        *(in_tree(f"aws://a/{number}", "a", name=f"v{number}") for number in (1, 2)),
    ]
    error = (
        "could not translate pv: failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume "
        "(aws://a/1)"
    )
    assert judged(storage_cluster(nodes, storage), "c1", "c2") == {"migrated": Status(Code.ERROR, (error,))}


def test_filter_needs_prefilter() -> None:
    pod = with_claims("p", "c")
    cluster = cluster_with()
    with pytest.raises(PluginError, match=r"^not found$"):
        VolumeBinding(VolumeBindingArgs(), handle_of(cluster)).filter(CycleState(pod), pod, cluster.view(None))


SHAPE = (UtilizationShapePoint(utilization=0, score=0), UtilizationShapePoint(utilization=100, score=10))


def scored(args: VolumeBindingArgs, *storage: StorageObject) -> tuple[Status | None, list[int]]:
    """PreScore and Score, of the nodes in another order than Filter saw them."""
    cluster = cluster_with(*storage)
    pod = with_claims("p", "c")
    plugin, state = VolumeBinding(args, handle_of(cluster)), CycleState(pod)
    assert plugin.pre_filter(state, pod) is None
    plugin.filter(state, pod, cluster.view(None))
    nodes = cluster.view(np.array([1, 0]))
    return plugin.pre_score(state, pod, nodes), plugin.score(state, pod, nodes).tolist()


def test_with_a_shape_scoring_needs_prefilter() -> None:
    pod, nodes = with_volumes("p"), cluster_with().view(None)
    plugin = VolumeBinding(VolumeBindingArgs(shape=SHAPE), handle_of(cluster_with()))
    with pytest.raises(PluginError, match=r"^not found$"):
        plugin.pre_score(CycleState(pod), pod, nodes)
    with pytest.raises(PluginError, match=r"^not found$"):
        plugin.score(CycleState(pod), pod, nodes)
    plain = VolumeBinding(VolumeBindingArgs(), handle_of(cluster_with()))
    assert plain.pre_score(CycleState(pod), pod, nodes) == SKIP
    assert plain.score(CycleState(pod), pod, nodes).tolist() == [0, 0]


def test_with_a_shape_fuller_volumes_score_by_it() -> None:
    storage: list[StorageObject] = [
        make_claim("c", class_name="x"),
        make_class("x"),
        make_volume("large", size="4Gi", class_name="x", only={"host": ["a"]}),
        make_volume("small", size="2Gi", class_name="x", only={"host": ["b"]}),
    ]
    assert scored(VolumeBindingArgs(shape=SHAPE), *storage) == (None, [50, 25])
    assert scored(VolumeBindingArgs(), *storage) == (SKIP, [0, 0])


def test_without_volumes_to_bind_there_is_no_score() -> None:
    storage: list[StorageObject] = [make_claim("c", class_name="x"), make_class("x")]
    assert scored(VolumeBindingArgs(shape=SHAPE), *storage) == (SKIP, [0, 0])


def test_nodes_that_filter_rejected_have_no_volumes() -> None:
    storage: list[StorageObject] = [
        make_claim("c", class_name="x"),
        make_class("x", NO_PROVISIONER),
        make_volume("v", size="2Gi", class_name="x", only={"host": ["a"]}),
    ]
    assert scored(VolumeBindingArgs(shape=SHAPE), *storage) == (None, [0, 50])


def test_a_class_that_only_the_beta_annotation_names_is_scored_as_any_other() -> None:
    # kube-scheduler 1.37 panics.
    beta = {"volume.beta.kubernetes.io/storage-class": "x"}
    by_half = make_capacity("k", "x", "2Gi", LabelSelector({"host": "a"}))
    rest = make_capacity("l", "x", "10Gi", LabelSelector({"host": "b"}))
    driver = make_driver("csi.example.com", storage_capacity=True)
    rules = rules_of(37)
    for claim in make_claim("c", annotations=beta), make_claim("c", class_name="x"):
        cluster = cluster_with(claim, make_class("x"), driver, by_half, rest, rules=rules)
        pod = with_claims("p", "c")
        plugin = VolumeBinding(VolumeBindingArgs().with_defaults(rules), handle_of(cluster))
        state = CycleState(pod)
        assert plugin.pre_filter(state, pod) is None
        assert plugin.filter(state, pod, cluster.view(None)) is None
        assert plugin.pre_score(state, pod, cluster.view(None)) is None
        assert plugin.score(state, pod, cluster.view(None)).tolist() == [50, 90]


@pytest.mark.parametrize("claims", [("large", "small"), ("small", "large")])
def test_of_several_capacities_the_one_that_the_largest_claim_needs_is_scored(claims: tuple[str, ...]) -> None:
    rules = rules_of(37)
    storage: list[StorageObject] = [
        make_class("x"),
        make_driver("csi.example.com", storage_capacity=True),
        make_capacity("k", "x", "100Gi", LabelSelector({"host": "a"})),
        make_capacity("l", "x", "500Gi", LabelSelector({"host": "a"})),
        make_claim("large", class_name="x", size="200Gi"),
        make_claim("small", class_name="x", size="10Gi"),
    ]
    cluster = storage_cluster([make_node("a", labels={"host": "a"})], storage, rules=rules)
    pod = with_claims("p", *claims)
    plugin = VolumeBinding(VolumeBindingArgs().with_defaults(rules), handle_of(cluster))
    state, nodes = CycleState(pod), cluster.view(None)
    assert plugin.pre_filter(state, pod) is None
    assert plugin.filter(state, pod, nodes) is None
    assert plugin.score(state, pod, nodes).tolist() == [58]  # 210Gi of 500Gi are asked for

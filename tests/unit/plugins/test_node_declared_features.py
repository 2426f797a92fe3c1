import pytest
from msgspec import structs

from extender_service.cluster.state.cluster import Cluster
from extender_service.config.defaulting import default_plugins
from extender_service.config.rules import rules_of
from extender_service.framework.cluster_event import NODE, POD, TARGET_POD, ActionType, ClusterEvent, QueueingHint
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.status import SKIP
from extender_service.kube.types.core import (
    Container,
    ContainerRestartRule,
    EphemeralContainer,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    VolumeMount,
)
from extender_service.plugins.node_declared_features import (
    BIND_MOUNT_OPTIONS,
    RESTART_ALL,
    USER_NAMESPACE_ON_HOST_NETWORK,
    NodeDeclaredFeatures,
    needed_features,
)
from tests.support.stub_plugins import make_handle

RESTARTS = Container(
    restart_policy_rules=(ContainerRestartRule("Restart"), ContainerRestartRule("RestartAllContainers"))
)

MOUNTS = Container(volume_mounts=(VolumeMount(), VolumeMount(("noexec",))))

WITH_GATE = {"NodeDeclaredFeatures": True}
UNNAMED = "node(s) didn't match Pod's required features"


def node(name: str, *features: str) -> Node:
    return Node(ObjectMeta(name=name), status=NodeStatus(declared_features=features))


def rejected(cluster: Cluster, spec: PodSpec, reason: str = UNNAMED) -> list[str]:
    plugin, pod = NodeDeclaredFeatures(None, make_handle(cluster)), Pod(spec=spec)
    state = CycleState(pod)
    assert plugin.pre_filter(state, pod) is None
    view = cluster.view(None)
    rejections = plugin.filter(state, pod, view)
    if rejections is None:
        return []
    status = rejections.status_of(max(rejections.keys.tolist()))
    assert (status.code.label, status.reasons) == ("UnschedulableAndUnresolvable", (reason,))
    return [name for name, key in zip(view.names, rejections.keys.tolist(), strict=True) if key]


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        (PodSpec(containers=(RESTARTS,)), {RESTART_ALL}),
        (PodSpec(init_containers=(RESTARTS,)), {RESTART_ALL}),
        (PodSpec(host_network=True, host_users=False), {USER_NAMESPACE_ON_HOST_NETWORK}),
        (PodSpec(host_network=True), set()),
        (PodSpec(host_users=False), set()),
        (PodSpec(containers=(Container(restart_policy_rules=(ContainerRestartRule("Restart"),)),)), set()),
    ],
)
def test_what_a_pod_needs_follows_from_its_spec(spec: PodSpec, needed: set[str]) -> None:
    assert needed_features(spec, rules_of(36)) == needed


@pytest.mark.parametrize(
    "spec",
    [
        PodSpec(containers=(Container(), MOUNTS)),
        PodSpec(init_containers=(MOUNTS,)),
        PodSpec(ephemeral_containers=(EphemeralContainer(volume_mounts=MOUNTS.volume_mounts),)),
    ],
)
def test_mount_options_of_a_volume_need_a_feature_from_1_37_on(spec: PodSpec) -> None:
    assert needed_features(spec, rules_of(36)) == set()
    assert needed_features(spec, rules_of(37)) == {BIND_MOUNT_OPTIONS}


def test_user_namespaces_on_the_host_network_need_a_feature_from_1_36_on() -> None:
    spec = PodSpec(host_network=True, host_users=False)
    assert needed_features(spec, rules_of(35, WITH_GATE)) == set()
    assert needed_features(spec, rules_of(36)) == {USER_NAMESPACE_ON_HOST_NETWORK}


def test_v1_35_names_the_feature_that_a_node_lacks() -> None:
    cluster = Cluster(rules_of(35, WITH_GATE))
    for each in (node("none"), node("one", RESTART_ALL)):
        cluster.apply_node(each)
    named = f"node declared features check failed - unsatisfied requirements: {RESTART_ALL}"
    assert rejected(cluster, PodSpec(containers=(RESTARTS,)), named) == ["none"]


def test_nodes_that_lack_one_feature_are_rejected_until_they_declare_it() -> None:
    cluster = Cluster(rules_of(36))
    for each in (node("none"), node("other", "Other"), node("one", RESTART_ALL)):
        cluster.apply_node(each)
    cluster.apply_node(node("both", USER_NAMESPACE_ON_HOST_NETWORK, RESTART_ALL))
    spec = PodSpec(containers=(RESTARTS,))
    assert rejected(cluster, spec) == ["none", "other"]
    assert rejected(cluster, structs.replace(spec, host_network=True, host_users=False)) == ["none", "other", "one"]
    cluster.apply_node(node("none", RESTART_ALL))
    assert rejected(cluster, spec) == ["other"]


def test_it_has_nothing_to_say_about_pods_that_need_no_feature() -> None:
    plugin = NodeDeclaredFeatures(None, make_handle(Cluster(rules_of(37))))
    assert plugin.pre_filter(CycleState(Pod()), Pod()) == SKIP


def test_it_has_nothing_to_say_while_its_gate_is_off() -> None:
    cluster, pod = Cluster(rules_of(35)), Pod(spec=PodSpec(containers=(RESTARTS,)))
    plugin = NodeDeclaredFeatures(None, make_handle(cluster))
    assert plugin.pre_filter(CycleState(pod), pod) == SKIP
    assert plugin.filter(CycleState(pod), pod, cluster.view(None)) is None


def test_a_pod_is_tried_again_for_a_new_node_or_other_features() -> None:
    plugin = NodeDeclaredFeatures(None, make_handle(Cluster(rules_of(37))))
    updated = ClusterEvent(NODE, ActionType.UPDATE)
    hints = [
        plugin.queueing_hint(updated, Pod(), old, node("a", "Other")) for old in (None, node("a"), node("a", "Other"))
    ]
    assert hints == [QueueingHint.QUEUE, QueueingHint.QUEUE, QueueingHint.SKIP]


@pytest.mark.parametrize(("minor", "resource"), [(36, POD), (37, TARGET_POD)])
def test_a_pod_is_tried_again_when_it_needs_other_features_itself(minor: int, resource: str) -> None:
    plugin = NodeDeclaredFeatures(None, make_handle(Cluster(rules_of(minor))))
    own, other = (Pod(ObjectMeta(uid=uid)) for uid in ("own", "other"))
    updated = ClusterEvent(resource, ActionType.UPDATE)

    def hint(changed: Pod, *containers: Container) -> QueueingHint:
        return plugin.queueing_hint(
            updated, own, changed, structs.replace(changed, spec=PodSpec(containers=containers))
        )

    assert hint(own, RESTARTS) is QueueingHint.QUEUE
    assert hint(own) is QueueingHint.SKIP
    if resource == POD:
        assert hint(other, RESTARTS) is QueueingHint.SKIP


def test_it_runs_last_from_1_36_on_or_with_its_gate() -> None:
    assert default_plugins(rules_of(35))[-1].name == "DefaultBinder"
    assert default_plugins(rules_of(35, {"NodeDeclaredFeatures": True}))[-1].name == "NodeDeclaredFeatures"
    assert default_plugins(rules_of(36))[-1].name == "NodeDeclaredFeatures"

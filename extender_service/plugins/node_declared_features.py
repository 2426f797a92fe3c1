"""NodeDeclaredFeatures: a pod goes only where the kubelet has the features that it needs.

A kubelet declares features of its own release that older ones do not have (status.declaredFeatures). Which of them a
pod needs follows from its spec (k8s.io/component-helpers/nodedeclaredfeatures).
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.view.node_view import NodeView
from extender_service.config.rules import Rules
from extender_service.framework.cluster_event import NODE, ActionType, ClusterEvent, QueueingHint
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter, PreFilter, Reach, extension_points
from extender_service.framework.status import SKIP, Rejections, Status, unresolvable
from extender_service.kube.types.core import Node, Pod, PodSpec, VolumeMount
from extender_service.plugins.shared.changed_pods import is_of_pod, is_own, own_pod
from extender_service.plugins.shared.event_objects import only_new, only_old

LACKS_FEATURES = unresolvable("node(s) didn't match Pod's required features")

RESTART_ALL = "RestartAllContainersOnContainerExits"
USER_NAMESPACE_ON_HOST_NETWORK = "UserNamespacesHostNetworkSupport"
BIND_MOUNT_OPTIONS = "VolumeBindMountOptions"

_NEEDED = "PreFilterNodeDeclaredFeatures"


class NodeDeclaredFeatures(PreFilter, Filter):
    """Rejects nodes whose kubelet does not declare what the pod needs, unless its feature gate is off."""

    name: ClassVar[str] = "NodeDeclaredFeatures"
    treats_alike: ClassVar[bool] = True
    depends_on_pods: ClassVar[bool] = False
    reach: ClassVar[Reach] = Reach.NONE
    retry_on: Sequence[ClusterEvent] = (ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE),)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        if handle.rules.hints_compare:
            self.retry_on = (
                ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE),
                ClusterEvent(own_pod(handle.rules), ActionType.UPDATE),
            )
        self._is_on = handle.rules.declared_features
        self._names_features = not handle.rules.lacking_features_unnamed
        self._rules = handle.rules

    @classmethod
    def points_in(cls, rules: Rules) -> set[str]:
        """Return the extension points in a release: none before 1.35."""
        return extension_points(cls) if rules.has_declared_features else set()

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | None:
        """Store the features that the pod needs; skip Filter if there are none."""
        needed = needed_features(pod.spec, self._rules) if self._is_on else frozenset()
        if not needed:
            return SKIP
        state[_NEEDED] = needed
        return None

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Reject nodes that lack one."""
        if not self._is_on:
            return None
        needed = state.read(_NEEDED, "error reading")
        lacking = nodes.kept_by_facts(_lacking, needed)
        if not lacking.any():
            return None
        return Rejections.where(lacking, _lacks(needed) if self._names_features else LACKS_FEATURES)

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: object, new: object) -> QueueingHint:
        """Queue for a node that is new, or whose declared features have changed, and for a pod that needs others."""
        if is_of_pod(event):
            before_spec, after_spec = only_old(Pod, old, new).spec, only_new(Pod, old, new).spec
            if not is_own(event, pod, old, new):
                return QueueingHint.SKIP
            before_needed, needed = (needed_features(spec, self.handle.rules) for spec in (before_spec, after_spec))
            return QueueingHint.queue_if(before_needed != needed)
        node = only_new(Node, old, new)
        before = old.status.declared_features if isinstance(old, Node) else None
        return QueueingHint.queue_if(before != node.status.declared_features)


def needed_features(spec: PodSpec, rules: Rules) -> frozenset[str]:
    """Return the features without which a kubelet cannot run the pod as asked."""
    needed = set()
    mounts: list[VolumeMount] = []
    for container in spec.containers + spec.init_containers:
        for rule in container.restart_policy_rules:
            if rule.action == "RestartAllContainers":
                needed.add(RESTART_ALL)
        mounts += container.volume_mounts
    if rules.user_namespaces_on_host_network and spec.host_network and spec.host_users is False:
        needed.add(USER_NAMESPACE_ON_HOST_NETWORK)
    if rules.bind_mount_options:
        for added in spec.ephemeral_containers:
            mounts += added.volume_mounts
        if mounts and any(mount.bind_mount_options for mount in mounts):
            needed.add(BIND_MOUNT_OPTIONS)
    return frozenset(needed)


def _lacking(nodes: NodeView, needed: frozenset[str]) -> NDArray[np.bool_]:
    # Node by node: few pods need a feature, and only nodes that changed since the last such pod are asked.
    return np.array(
        [node is None or not needed.issubset(node.status.declared_features) for node in nodes.objects], bool
    )


def _lacks(needed: frozenset[str]) -> Status:
    """Return the rejection of v1.35. There, a pod needs one feature at most, so a node that lacks any lacks all."""
    return unresolvable(f"node declared features check failed - unsatisfied requirements: {', '.join(sorted(needed))}")

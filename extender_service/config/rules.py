"""The one table of what differs between releases of Kubernetes: each rule, and what brings it.

A rule is named by what a later release does. It is true for releases that do it, and false for v1.31.1. The cluster's
state and the plugins get the rules when they are made. They ask for a rule by its name, and never compare versions. To
add a rule, add a line here, and ask for it where it applies.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from extender_service.config.known_gates import was_last_on
from extender_service.config.release import NEWEST_MINOR, OLDEST_MINOR, parse_emulated_version, version_of
from extender_service.kube.parsing.label_syntax import Wording

_SINCE = "since"
_GATES = "gates"


def _since(minor: int) -> Any:
    """Return a rule that holds from a release on."""
    return field(metadata={_SINCE: minor, _GATES: ()})


def _behind(*gates: str, since: int = 0) -> Any:
    """Return a rule that holds while one of some feature gates is on: a gate may have changed its name."""
    return field(metadata={_SINCE: since, _GATES: gates})


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rules of one release, with the feature gates as set. `release`, such as 1.34, is for display."""

    release: str

    # The framework.

    # A change wakes a rejected pod only if a plugin that rejected it says that this change can help (KEP-4247).
    queueing_hints: bool = _behind("SchedulerQueueingHints")

    # Events are named by resource and action, and those of pods say whether the pod is on a node.
    events_named_by_action: bool = _since(32)
    # The event of a toleration that is added has its name in singular, as those of other changes: UpdatePodToleration.
    toleration_in_singular: bool = _since(33)
    # An update of a pod of no known kind concerns only plugins that registered every update of pods.
    other_updates_for_all: bool = _since(34)
    # An update of a waiting pod is the event TargetPod to itself, and UnscheduledPod to others.
    own_changes_named: bool = _since(37)
    # With hints, every plugin gets an event of a node: the queue does not check the pod against the node before.
    hints_replace_checks: bool = _behind("SchedulerQueueingHints", since=32)
    # Hints compare an object before and after its change, and are asked about updates of the rejected pod itself, too.
    hints_compare: bool = _behind("SchedulerQueueingHints", since=32)
    # Plugins register only updates of nodes that can help, and VolumeBinding no new CSIDrivers. Without hints, these
    # always include labels and taints, for which a new node may be hidden from the queue.
    fewer_events_wake: bool = _since(32)
    # Plugins that register new nodes, and no updates of taints, get none: nodes with taints are not hidden from them.
    tainted_nodes_shown: bool = _since(37)
    # Deleting a VolumeAttachment wakes pods with a volume of its driver, or with a claim.
    attachments_by_driver: bool = _since(33)
    # Deleting a node is an event.
    node_deletions_reported: bool = _since(32)
    # A nominated pod that is deleted, or nominated elsewhere, frees room for pods of its priority or less.
    nominated_pods_free_room: bool = _since(33)
    # InterPodAffinity compares a node that has changed with what it was: whether it came into a topology or left one.
    topologies_compared: bool = _since(33)
    # InterPodAffinity and PodTopologySpread take a nominated pod for one on a node, in hints.
    nominated_pods_count_near: bool = _since(36)
    # A pod that InterPodAffinity rejected is tried again when its own labels change, and when a pod is deleted whose
    # anti-affinity matches it.
    anti_affinity_of_others_wakes: bool = _since(36)
    # A pod that matched any term of the anti-affinity wakes the rejected one when it is deleted or changes, not just
    # one that matched all of them.
    any_anti_affinity_term_wakes: bool = _since(37)
    # An increase of a pod's requests is an event.
    scale_up_reported: bool = _since(37)

    # The queue (extender_service/queue).

    # A pod that is in flight is not popped once more.
    one_attempt_at_a_time: bool = _since(32)
    # Each change of a pod in flight is an event of its own when the pod comes back, and so is its activation.
    own_changes_in_flight: bool = _since(32)
    # A pod that was never tried does not back off; a gated one does.
    backoff_follows_attempts: bool = _since(32)
    # When nothing else waits, pods leave backoff early, most important first; PreEnqueue is asked before backoff, and
    # backoff ends in whole seconds (KEP-5142).
    leaves_backoff_early: bool = _behind("SchedulerPopFromBackoffQ", since=33)
    # A pod still backs off at the moment in which its backoff ends.
    backoff_includes_its_end: bool = _since(33)
    # queue_incoming_pods_total counts gated pods, too, and no longer pods that stay among the unschedulable ones.
    gated_pods_come_in: bool = _since(33)
    # Rejections and errors in a row have a backoff count each.
    errors_back_off_apart: bool = _since(34)
    # Only events that its gating plugin registered move a gated pod, and PreEnqueue asks that plugin first.
    gating_plugin_remembered: bool = _since(34)
    # A pod that is activated while it backs off is not asked about in PreEnqueue: that was done before its backoff.
    backing_off_is_ungated: bool = _since(35)
    # pending_pods follows a gate that comes or goes, and unschedulable_pods has each plugin once for a pod.
    gates_counted_once: bool = _since(36)
    # unschedulable_pods no longer has pods that were deleted while they were active or backed off.
    deleted_pods_uncounted: bool = _since(37)
    # The flush of leftovers moves gated pods, and a pod waits its whole time after a flush.
    leftovers_flushed_in_turn: bool = _since(37)
    # An update of a pod that is in no queue adds it, and a nomination for no node ends the one before.
    unknown_pods_added: bool = _since(37)

    # Plugins that exist, and where they run.

    # DynamicResources can be enabled, with arguments. It does nothing while its gate is off.
    has_dynamic_resources: bool = _since(34)
    # DynamicResources runs by default, before DefaultPreemption (KEP-4381).
    dynamic_resources: bool = _behind("DynamicResourceAllocation", since=34)
    # DynamicResources scores, with weight 2 (KEP-4816).
    scored_dynamic_resources: bool = _behind("DynamicResourceAllocation", since=35)
    # NodeDeclaredFeatures can be enabled. It does nothing while its gate is off.
    has_declared_features: bool = _since(35)
    # NodeDeclaredFeatures runs by default, last (KEP-5328).
    declared_features: bool = _behind("NodeDeclaredFeatures")
    # NodeName names the pod's node in PreFilter, and runs before NodeUnschedulable (k/k#140000).
    node_named_first: bool = _since(37)
    # TaintToleration and NodeUnschedulable run PreFilter, too: for pods whose resize is deferred (KEP-5836).
    taints_pre_filtered: bool = _since(37)

    # What pods ask for that plugins of the release judge, and those of this program do not (scheduling/unsupported.py).

    # Devices by resource claims (KEP-4381).
    resource_claims: bool = _behind("DynamicResourceAllocation")
    # Scheduling as a group of pods (KEP-4671).
    pod_groups: bool = _behind("GenericWorkload")
    # The group of a running pod decides whether it can be a victim; in 1.36, only with a gate that is not followed.
    groups_preempted: bool = _behind("GenericWorkload", since=37)
    # Requests of the pod as a whole, in the first release that has them; later ones are pod_level_resources.
    first_pod_level_resources: bool = _behind("PodLevelResources")
    # Room on their own node for running pods whose resize is deferred (KEP-5836).
    deferred_resizes: bool = _behind("InPlacePodVerticalScalingSchedulerPreemption")

    # The configuration.

    # RequestedToCapacityRatio must have its shape, and other strategies of NodeResourcesFit must have none.
    shape_for_its_type_only: bool = _since(36)
    # DynamicResources has the argument filterTimeout, if its gate is on.
    filter_timeout: bool = _behind("DRASchedulerFilterTimeout", since=34)
    # DynamicResources has the argument bindingTimeout, if both gates are on.
    has_binding_timeout: bool = _since(35)
    device_binding_conditions: bool = _behind("DRADeviceBindingConditions", since=35)
    device_status_of_claims: bool = _behind("DRAResourceClaimDeviceStatus", since=35)
    # Placements of groups of pods have extension points (KEP-5732).
    placement_points: bool = _since(36)
    # Preemption for groups of pods has an extension point.
    group_post_filter_point: bool = _since(37)

    # Reasons.

    # TaintToleration names neither key nor value of the taint (k/k#134740).
    unnamed_taints: bool = _since(34)
    # VolumeBinding says which affinity a node does not match.
    volume_affinity_named: bool = _since(33)
    # VolumeRestrictions says that the claim is in use by another pod.
    claim_in_use_named: bool = _since(34)
    # Errors of fields show lists and durations as JSON, not as Go does.
    values_as_json: bool = _since(34)
    # Errors of fields ask for a valid label key, not for a qualified name.
    label_keys_by_name: bool = _since(35)
    # Three errors of configurations no longer begin with the name of their field.
    fields_named_once: bool = _since(34)
    # VolumeBinding names volumes and claims that were deleted or changed since Filter as the API server does.
    storage_named_by_resource: bool = _since(35)
    # NodeDeclaredFeatures does not say which features a node lacks.
    lacking_features_unnamed: bool = _since(36)
    # DynamicResources does not say that it has no allocation to take back.
    deallocation_unmentioned: bool = _since(37)
    # DefaultPreemption says where it makes room, and by how many victims (k/k#140180).
    preemption_described: bool = _since(37)

    # What pods count as on their node (cluster/amounts/requests.py).

    # A sidecar without requests counts with defaults when nodes are scored, as other containers do.
    sidecar_defaults: bool = _since(32)
    # Host ports of sidecars are in use, too (k/k#132040).
    sidecar_ports: bool = _since(33)

    # Where a pod has requests as a whole (spec.resources), they count instead of the sum of its containers (KEP-2837).
    pod_level_resources: bool = _behind("PodLevelResources", since=33)
    # What the kubelet reports of a running container, allocated and actual, counts if it is more (KEP-1287).
    resized_containers: bool = _behind("InPlacePodVerticalScaling", since=33)
    # What the kubelet reports of a running pod as a whole, allocated and actual, counts if it is more (KEP-5419).
    resized_pods: bool = _behind("InPlacePodLevelResourcesVerticalScaling", since=35)
    # Of what is requested, allocated and actual, each is summed over the containers, and the largest sum counts.
    reports_summed_apart: bool = _since(37)

    # ImageLocality counts images that are mounted as volumes as those of containers (KEP-4639).
    image_volumes: bool = _since(36)
    # Images that are mounted as volumes also raise the sum of sizes that scores 100, as each container does.
    image_volumes_raise_most: bool = _since(37)

    # Pods with scheduling gates count on the node that they are nominated for (KEP-5278).
    gated_nominees: bool = _since(37)

    # Filter.

    # Tolerations with the operators Lt and Gt compare numbers (KEP-5471).
    compared_tolerations: bool = _behind("TaintTolerationComparisonOperators")
    # NodeDeclaredFeatures requires UserNamespacesHostNetworkSupport for pods with hostNetwork and hostUsers: false.
    user_namespaces_on_host_network: bool = _since(36)
    # NodeDeclaredFeatures requires VolumeBindMountOptions for pods that set mount options of a volume.
    bind_mount_options: bool = _since(37)
    # VolumeBinding lists no nodes of local volumes in PreFilter; their affinity decides in Filter (k/k#127584).
    local_volumes_by_affinity: bool = _since(32)
    # VolumeBinding takes claims with a VolumeAttributesClass, and volumes of the same class for them (KEP-3751).
    volume_attributes_classes: bool = _behind("VolumeAttributesClass")
    # NodeVolumeLimits takes limits from CSINodes only; EBSLimits and its like are gone.
    volume_limits_of_drivers: bool = _since(32)
    # NodeVolumeLimits counts volumes that a VolumeAttachment attaches to the node, also those that no pod there has any
    # more (k/k#127757).
    attachments_count: bool = _since(32)
    # A pod that NodeVolumeLimits rejected is tried again when a CSINode raises a limit (KEP-4876).
    raised_limits_wake: bool = _since(33)
    # Portworx volumes count as their driver's wherever there is a CSINode, as those of other in-tree plugins do.
    portworx_migrated: bool = _since(36)
    # NodeVolumeLimits rejects a node without the CSI driver of one of the pod's volumes (KEP-5030).
    missing_drivers_reject: bool = _behind("VolumeLimitScaling")
    # NodeVolumeLimits rejects so only where the CSIDriver has preventPodSchedulingIfMissing.
    missing_driver_rejection_is_opt_in: bool = _since(36)
    # PodTopologySpread counts each constraint on its own, also where several have the same topology key.
    spread_counted_apart: bool = _since(33)
    # NodeResourcesFit rejects a request above the allocatable amount as UnschedulableAndUnresolvable (k/k#131345).
    too_large_is_unresolvable: bool = _since(34)

    # Preemption.

    # Victims are deleted in the background, after the attempt of their preemptor has failed (KEP-4832).
    preemption_in_background: bool = _behind("SchedulerAsyncPreemption")
    # DefaultPreemption serves PreEnqueue, to keep a preemptor out of the queue while its victims are deleted.
    preemptors_gated: bool = _since(32)
    # PreEnqueue keeps a preemptor out until its last victim has a deletionTimestamp, not just until one is left.
    preemptors_wait_for_last_victim: bool = _since(35)
    # Victims that have a deletionTimestamp already are not deleted once more.
    terminating_victims_left_alone: bool = _since(35)
    # A victim whose binding waits in Permit or PreBind is sent back to the queue, not deleted or rejected.
    victims_sent_back: bool = _since(36)
    # A preemptor whose last victim was sent back to the queue is tried at once: no pod's deletion would wake it.
    retries_preemptor_of_requeued_victim: bool = _since(37)

    # Victims are in the order of their importance, also where budgets are violated.
    victims_by_importance: bool = _since(32)

    # A pod whose eviction violates one budget does not count against the budgets after it.
    first_violated_budget_counts: bool = _since(37)

    # Score.

    # NodeResourcesBalancedAllocation skips pods that request none of its resources (k/k#130260).
    balance_skips_best_effort: bool = _since(33)
    # NodeResourcesBalancedAllocation scores how much more even the pod makes the node (k/k#135573).
    balance_gained: bool = _since(36)
    # VolumeBinding scores by the capacity of the volumes to bind, by the shape in its arguments (KEP-1845).
    scores_volume_capacity: bool = _behind("VolumeCapacityPriority")
    # The gate StorageCapacityScoring has taken the place of VolumeCapacityPriority.
    has_storage_capacity_scoring: bool = _since(33)
    # VolumeBinding scores every pod, by the capacity of the volumes to bind or of what volumes are made of (KEP-4049).
    scores_storage_capacity: bool = _behind("StorageCapacityScoring")

    # The cycle of `schedule`: from the pod that is popped to the pod that is bound, or why it is not.

    # The event of a pod that fits nowhere also counts the nodes without a verdict: those that PreFilter left out, and
    # where preemption would help, but no candidate is wanted.
    left_out_nodes_counted: bool = _since(32)
    # A node that extenders refuse twice, first as the nominated one, has the reason of the second time only.
    last_refusal_counts: bool = _since(32)
    # A pod that PreBind rejects is tried again after its backoff, and waits for no event.
    pre_bind_rejection_backs_off: bool = _since(33)
    # Before a pod waits in Permit or PreBind, it is nominated for its node, as an expectation (KEP-5278).
    # PreBindPreFlight says which PreBind plugins have work to do; the others are left out.
    nominated_before_waits: bool = _behind("NominatedNodeNameForExpectation", since=35)
    # When PreBind fails halfway, a volume that VolumeBinding has written stays assumed until the watch shows it.
    written_volumes_stay_assumed: bool = _since(35)
    # The condition PodScheduled has the generation of the pod that it is about (KEP-5067).
    conditions_have_generation: bool = _behind("PodObservedGenerationTracking", since=33)
    # Deleting a pod that is being bound frees its place on the node at once, and wakes other pods.
    deletion_frees_place: bool = _since(35)
    # A nominated pod that is bound, here or by another scheduler, frees no room for others; one that is deleted does.
    bound_nominees_free_no_room: bool = _since(35)
    # A failed attempt clears the pod's nominatedNodeName also where no PostFilter plugin runs.
    failure_takes_nomination_back: bool = _since(35)
    # If a pod was deleted during its attempt, and recreated under its name, its failure has no event.
    no_failure_event_for_recreated_pod: bool = _since(36)
    # A binding that the API server answers with 500 or 503, or whose connection is refused, is posted up to three times
    # more, within 310 ms.
    bindings_retried: bool = _since(37)
    # So is a patch of a pod's status that conflicts with the writes of others.
    conflicts_retried: bool = _since(37)

    # Metrics.

    # scheduler_cache_size has the size of the cache, too.
    cache_size_renamed: bool = _since(33)
    # scheduler_scheduler_cache_size, which had it before, is gone.
    old_cache_size_gone: bool = _since(34)
    # The events that the queue keeps for pods in flight are counted.
    in_flight_events_counted: bool = _behind("SchedulerQueueingHints", since=32)
    # Pods are counted that were bound after they had waited too long for an event.
    bound_after_flush_counted: bool = _since(36)
    # The victims of a preemption in the foreground count before they are deleted, also if that fails.
    victims_counted_first: bool = _since(36)
    # A preemption in the background whose victims are all being deleted already does not count; in 1.37, it does again.
    idle_preemptions_uncounted: bool = _since(36)
    idle_preemptions_counted: bool = _since(37)
    # How long preemptions in the background take is not shown (scheduler_preemption_goroutines_duration_seconds).
    preemption_time_hidden: bool = _since(37)
    # Updates of pods are also timed under each of the events that they are.
    pod_changes_timed: bool = _since(32)
    # What a pod requests as a whole, and its limits, are shown instead of the sums of its containers.
    pod_level_resources_shown: bool = _since(32)
    # Pods in the queue also count as entities: groups of pods, which are off by default, would be others.
    queued_entities_counted: bool = _since(37)

    @property
    def wording(self) -> Wording:
        """The wording of errors of fields."""
        return Wording(self.values_as_json, self.label_keys_by_name)


def rules_of(minor: int, gates: Mapping[str, bool] | None = None) -> Rules:
    """Return the rules of the release 1.`minor`, with the feature gates that are set; others have their default."""
    settings = gates or {}

    def is_on(gate: str) -> bool:
        return settings[gate] if gate in settings else was_last_on(gate, minor)

    def holds(metadata: Mapping[str, Any]) -> bool:
        return minor >= metadata[_SINCE] and (not metadata[_GATES] or any(map(is_on, metadata[_GATES])))

    held = {each.name: holds(each.metadata) for each in fields(Rules) if each.metadata}
    return Rules(release=version_of(minor), **held)


def rules_of_release(release: str) -> Rules:
    """Return the rules of a release such as 1.34, with the defaults of its feature gates. Raises ValueError."""
    return rules_of(parse_emulated_version(release))


# For parts that are made without rules.
DEFAULT_RULES = rules_of(OLDEST_MINOR)
# For decisions without an API server: about cluster files, and in tests of plugins.
NEWEST_RULES = rules_of(NEWEST_MINOR)


def followed_gates(minor: int) -> set[str]:
    """Return the feature gates on which a rule of the release 1.`minor` depends."""
    rules = (each.metadata for each in fields(Rules) if each.metadata)
    return {gate for rule in rules if minor >= rule[_SINCE] for gate in rule[_GATES]}

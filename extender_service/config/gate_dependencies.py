"""The feature gates that kube-scheduler of each release turns on only beside others, from v1.35 on.

They are those of pkg/features/kube_features.go (defaultKubernetesFeatureGateDependencies) in v1.35.4, v1.36.3 and
v1.37.2, all of them. tests/kubernetes_1_37/known_gates prints those of v1.37.2.
"""

from collections.abc import Iterator, Mapping, Sequence

from extender_service.config.known_gates import known_gates


def gate_dependencies(minor: int) -> Mapping[str, Sequence[str]]:
    """Return the gates that must be on beside a feature gate of the release 1.`minor`, by its name."""
    known = known_gates(minor)
    return {name: needed for name, needed in _needed_in(minor) if needed and name in known}


def unmet_dependencies(values: Mapping[str, bool], minor: int) -> Iterator[str]:
    """Yield what kube-scheduler says of each gate that is on while a gate that it depends on is off."""
    for name, needed in gate_dependencies(minor).items():
        off = [gate for gate in needed if not values[gate]]
        if values[name] and off:
            yield f"{name} is enabled, but depends on features that are disabled: [{' '.join(off)}]"


def _needed_in(minor: int) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each gate of the table, and what its last change up to a minor says."""
    for line in _TABLE.strip().splitlines():
        name, *changes = line.split()
        needed: Sequence[str] = ()
        for change in changes:
            since, _, gates = change.partition(":")
            if int(since) <= minor:
                needed = [gate for gate in gates.split(",") if gate]
        yield name, needed


# A line for each gate: MINOR:GATE,GATE for each release that changes what it depends on, in alphabetical order; MINOR:
# for the first release in which it depends on none.
_TABLE = """
AuthorizeNodeWithSelectors 35:AuthorizeWithSelectors
ClusterTrustBundleProjection 35:ClusterTrustBundle
CompositePodGroup 37:GenericWorkload,TopologyAwareWorkloadScheduling
DRAAdminAccess 35:DynamicResourceAllocation
DRAConsumableCapacity 35:DynamicResourceAllocation
DRADerivedAttributes 37:DynamicResourceAllocation
DRADeviceBindingConditions 35:DRAResourceClaimDeviceStatus,DynamicResourceAllocation
DRADeviceCompatibilityGroups 37:DRAPartitionableDevices,DynamicResourceAllocation
DRADeviceTaintRules 35:DRADeviceTaints
DRADeviceTaints 35:DynamicResourceAllocation
DRAExtendedResource 35:DynamicResourceAllocation
DRAFractionalCapacityRange 37:DRAConsumableCapacity
DRAListTypeAttributes 36:DynamicResourceAllocation
DRANodeAllocatableResources 36:DynamicResourceAllocation
DRAOptionalNodeOperations 37:DynamicResourceAllocation,NodeDeclaredFeatures
DRAPartitionableDevices 35:DynamicResourceAllocation
DRAPartitionableDevicesType 37:DRAPartitionableDevices,DRAResourcePoolStatus,DynamicResourceAllocation
DRAPrioritizedList 35:DynamicResourceAllocation
DRAResourceClaimGranularStatusAuthorization 36:DRAResourceClaimDeviceStatus,DynamicResourceAllocation
DRAResourcePoolStatus 36:DynamicResourceAllocation
DRASchedulerFilterTimeout 35:DynamicResourceAllocation
DRAWorkloadResourceClaims 36:DynamicResourceAllocation,GenericWorkload
DeclarativeValidationBeta 36:DeclarativeValidation
DeclarativeValidationTakeover 35:DeclarativeValidation
DisableAllocatorDualWrite 35:MultiCIDRServiceAllocator
EventedPLEG 37:PLEGOnDemandRelist
ExtendWebSocketsToKubelet 36:NodeDeclaredFeatures
GangScheduling 35:GenericWorkload
GracefulNodeShutdownBasedOnPodPriority 35:GracefulNodeShutdown
H2CContainerProbe 37:NodeDeclaredFeatures
ImageVolumeWithDigest 36:ImageVolume
InPlacePodLevelResourcesVerticalScaling 35:InPlacePodVerticalScaling,NodeDeclaredFeatures,PodLevelResources
InPlacePodVerticalScalingAllocatedStatus 35:InPlacePodVerticalScaling
InPlacePodVerticalScalingExclusiveCPUs 35:InPlacePodVerticalScaling
InPlacePodVerticalScalingExclusiveMemory 35:InPlacePodVerticalScaling,MemoryManager 36:InPlacePodVerticalScaling
InPlacePodVerticalScalingInitContainers 36:InPlacePodVerticalScaling,NodeDeclaredFeatures
InPlacePodVerticalScalingMemoryBackedVolumes 37:InPlacePodVerticalScaling,NodeDeclaredFeatures
InPlacePodVerticalScalingSchedulerPreemption 37:InPlacePodVerticalScaling
KubeletAllocatedPodsEndpoint 37:InPlacePodVerticalScaling
MatchLabelKeysInPodTopologySpreadSelectorMerge 35:MatchLabelKeysInPodTopologySpread
NodeControllerLeaseCircuitBreaker 37:AtomicFIFO
PodCertificateRequest 35:AuthorizeNodeWithSelectors 37:
PodGroupPreemptionPolicy 37:GenericWorkload
PodLevelResourceManagers 36:PodLevelResources
PodLevelResourcesFixDefaulting 37:PodLevelResources
PodLevelResourcesFixKubeletQOSClass 37:PodLevelResources
PodLifecycleSleepActionAllowZero 35:PodLifecycleSleepAction
ProcMountType 35:UserNamespacesSupport
ResourceHealthStatus 35:DynamicResourceAllocation
ResourceHealthStatusMessage 36:ResourceHealthStatus
RestartAllContainersOnContainerExits 35:ContainerRestartRules,NodeDeclaredFeatures
ServiceAccountTokenNodeBinding 35:ServiceAccountTokenNodeBindingValidation
StaleControllerConsistencyDaemonSet 36:AtomicFIFO
StaleControllerConsistencyHPA 37:AtomicFIFO
StaleControllerConsistencyJob 36:AtomicFIFO
StaleControllerConsistencyReplicaSet 36:AtomicFIFO
StaleControllerConsistencyStatefulSet 36:AtomicFIFO
StorageVersionAPI 35:APIServerIdentity
StructuredAuthenticationConfigurationEgressSelector 35:StructuredAuthenticationConfiguration 37:
StructuredAuthenticationConfigurationJWKSMetrics 35:StructuredAuthenticationConfiguration 37:
TopologyAwareWorkloadScheduling 36:GenericWorkload
UnknownVersionInteroperabilityProxy 35:APIServerIdentity
UserNamespacesHostNetworkSupport 35:UserNamespacesSupport 36:NodeDeclaredFeatures,UserNamespacesSupport
WindowsCPUAndMemoryAffinity 35:MemoryManager 36:
WindowsGracefulNodeShutdown 35:GracefulNodeShutdown
WorkloadAwarePreemption 36:GangScheduling
WorkloadWithJob 36:GenericWorkload
"""

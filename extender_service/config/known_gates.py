"""The feature gates that kube-scheduler of each release accepts.

The names are those of the packages that kube-scheduler links (pkg/features, apiserver, component-base, client-go) in
v1.31.1, v1.32.13, v1.33.13, v1.34.4, v1.35.4, v1.36.3 and v1.37.2.
tests/kubernetes_1_37/known_gates prints those of v1.37.2.
"""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from extender_service.config.release import NEWEST_MINOR, OLDEST_MINOR


class KnownGate(NamedTuple):
    """A feature gate: `stage` is Alpha, Beta, GA or Deprecated; a locked one can only be set to its default."""

    stage: str
    default: bool
    is_locked: bool


@cache  # one entry for each release
def known_gates(minor: int) -> Mapping[str, KnownGate]:
    """Return the feature gates of the release 1.`minor` by name."""
    return {name: gate for name, line in _lines() if (gate := _gate_in(line, minor)) is not None}


def was_last_on(name: str, minor: int) -> bool:
    """Return the default of a feature gate in the release 1.`minor`, or in the last one before it that knew the gate.

    A gate goes some releases after its feature has become fixed: on, or off if the feature was dropped.
    """
    last = next((gate for each in range(minor, OLDEST_MINOR - 1, -1) if (gate := known_gates(each).get(name))), None)
    return last is not None and last.default


def minors_with(name: str) -> list[int]:
    """Return the minors of the releases that know a feature gate; none for a name that is no gate."""
    return [minor for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1) if name in known_gates(minor)]


def _lines() -> list[tuple[str, list[str]]]:
    return [(words[0], words[1:]) for words in (line.split() for line in _TABLE.strip().splitlines())]


def _gate_in(changes: list[str], minor: int) -> KnownGate | None:
    """Return what the last change up to a minor says."""
    facts = [change.split(":")[1:] for change in changes if int(change.split(":")[0]) <= minor]
    if not facts or facts[-1] == ["gone"]:
        return None
    stage, default, *locked = facts[-1]
    return KnownGate("GA" if stage == "ga" else stage.capitalize(), default == "on", bool(locked))


# A line for each gate: MINOR:STAGE:DEFAULT, with :locked where it cannot be changed, for each release that changes any
# of these; MINOR:gone for the first release that does not know the gate any more.
_TABLE = """
APIListChunking 31:ga:on:locked 33:gone
APIResponseCompression 31:beta:on
APIServerIdentity 31:beta:on
APIServerTracing 31:beta:on 34:ga:on:locked 37:gone
APIServerWebhookAuthenticationToken 37:alpha:off
APIServingWithRoutine 31:alpha:off
AdmissionWebhookMatchConditions 31:ga:on:locked 33:gone
AggregatedDiscoveryEndpoint 31:ga:on:locked 33:gone
AggregatedDiscoveryRemoveBetaType 33:deprecated:on 35:deprecated:on:locked
AllowDNSOnlyNodeCSR 31:deprecated:off
AllowInsecureKubeletCertificateSigningRequests 31:deprecated:off
AllowOverwriteTerminationGracePeriodSeconds 32:deprecated:off 35:deprecated:off:locked
AllowParsingUserUIDFromCertAuth 33:beta:on
AllowServiceExternalIPs 36:ga:on
AllowServiceLBStatusOnNonLB 31:deprecated:off 32:deprecated:off:locked 35:gone
AllowUnsafeMalformedObjectDeletion 32:alpha:off 37:beta:on
AnonymousAuthConfigurableEndpoints 31:alpha:off 32:beta:on 34:ga:on:locked 37:gone
AnyVolumeDataSource 31:beta:on 33:ga:on:locked 37:gone
AppArmor 31:ga:on:locked 33:gone
AppArmorFields 31:ga:on:locked 33:gone
AtomicFIFO 36:beta:on
AtomicWriteVolumeUserFields 37:alpha:off
AuthorizeNodeWithSelectors 31:alpha:off 32:beta:on 34:ga:on:locked 37:gone
AuthorizePodWebsocketUpgradeCreatePermission 35:beta:on
AuthorizeWithSelectors 31:alpha:off 32:beta:on 34:ga:on:locked 37:gone
BtreeWatchCache 32:beta:on 33:ga:on:locked 37:gone
CBORServingAndStorage 32:alpha:off
CPUManager 31:ga:on:locked 33:gone
CPUManagerPolicyAlphaOptions 31:alpha:off
CPUManagerPolicyBetaOptions 31:beta:on
CPUManagerPolicyOptions 31:beta:on 33:ga:on:locked
CRDObservedGenerationTracking 35:beta:off 36:beta:on
CRDValidationRatcheting 31:beta:on 33:ga:on:locked
CRIListStreaming 36:alpha:off
CSIMigrationPortworx 31:beta:on 33:ga:on:locked 36:gone
CSIServiceAccountTokenSecrets 35:beta:on 36:ga:on:locked
CSIVolumeHealth 31:alpha:off
ChangeContainerStatusOnKubeletRestart 35:deprecated:off
ClearingNominatedNodeNameAfterBinding 34:alpha:off 35:beta:on
ClientsAllowCARotation 36:beta:on
ClientsAllowCBOR 32:alpha:off
ClientsAllowTLSCacheGC 36:beta:on
ClientsPreferCBOR 32:alpha:off
CloudControllerManagerWatchBasedRoutesReconciliation 35:alpha:off
CloudControllerManagerWebhook 31:alpha:off
CloudDualStackNodeIPs 31:ga:on:locked 32:gone
ClusterTrustBundle 31:alpha:off 33:beta:off 37:ga:on
ClusterTrustBundleProjection 31:alpha:off 33:beta:off 37:ga:on
ComponentFlagz 32:alpha:off 36:beta:on
ComponentSLIs 31:beta:on 32:ga:on:locked 35:gone
ComponentStatusz 32:alpha:off 36:beta:on
CompositePodGroup 37:alpha:off
ConcurrentWatchObjectDecode 31:beta:off 37:beta:on
ConsistentListFromCache 31:beta:on 34:ga:on:locked 37:gone
ConsistentListFromCacheSkipTimeoutFallback 37:alpha:off
ConstrainedImpersonation 35:alpha:off 36:beta:on
ContainerCheckpoint 31:beta:on
ContainerRestartRules 34:alpha:off 35:beta:on
ContainerStopSignals 33:alpha:off
ContextualLogging 31:beta:on
CoordinatedLeaderElection 31:alpha:off 33:beta:off
CronJobsScheduledAnnotation 31:beta:on 32:ga:on:locked 35:gone
CrossNamespaceVolumeDataSource 31:alpha:off
CustomCPUCFSQuotaPeriod 31:alpha:off 36:ga:on
CustomResourceFieldSelectors 31:beta:on 32:ga:on:locked
DRAAdminAccess 32:alpha:off 34:beta:on 36:ga:on:locked
DRAConsumableCapacity 34:alpha:off 36:beta:on
DRAControlPlaneController 31:alpha:off 32:gone
DRADerivedAttributes 37:alpha:off
DRADeviceBindingConditions 34:alpha:off 36:beta:on
DRADeviceCompatibilityGroups 37:alpha:off
DRADeviceTaintRules 35:alpha:off 36:beta:off 37:ga:on
DRADeviceTaints 33:alpha:off 36:beta:on 37:ga:on
DRAExtendedResource 34:alpha:off 36:beta:on 37:ga:on:locked
DRAFractionalCapacityRange 37:beta:off
DRAListTypeAttributes 36:alpha:off
DRANodeAllocatableResources 36:alpha:off
DRAOptionalNodeOperations 37:alpha:off
DRAPartitionableDevices 33:alpha:off 36:beta:on
DRAPartitionableDevicesType 37:alpha:off
DRAPrioritizedList 33:alpha:off 34:beta:on 36:ga:on 37:ga:on:locked
DRAResourceClaimDeviceStatus 32:alpha:off 33:beta:on 37:ga:on:locked
DRAResourceClaimGranularStatusAuthorization 36:beta:on
DRAResourcePoolStatus 36:alpha:off
DRASchedulerFilterTimeout 34:beta:on
DRAWorkloadResourceClaims 36:alpha:off 37:beta:off
DeclarativeValidation 33:beta:on 36:ga:on:locked
DeclarativeValidationBeta 36:beta:on
DeclarativeValidationTakeover 33:beta:off 36:deprecated:off 37:deprecated:off:locked
DefaultPodSysctls 37:alpha:off
DeploymentReplicaSetTerminatingReplicas 33:alpha:off 35:beta:on
DetectCacheInconsistency 34:beta:on
DevicePluginCDIDevices 31:ga:on:locked 34:gone
DisableAllocatorDualWrite 31:alpha:off 33:beta:off 34:ga:on 35:ga:on:locked
DisableCPUQuotaWithExclusiveCPUs 33:beta:on 36:deprecated:on 37:deprecated:on:locked
DisableCloudProviders 31:ga:on:locked 33:gone
DisableKubeletCloudCredentialProviders 31:ga:on:locked 33:gone
DisableNodeKubeProxyVersion 31:deprecated:off 33:deprecated:on 36:deprecated:on:locked
DynamicResourceAllocation 31:alpha:off 32:beta:off 34:ga:on 35:ga:on:locked
EfficientWatchResumption 31:ga:on:locked 33:gone
ElasticIndexedJob 31:ga:on:locked 34:gone
EmptyDirVolumeMode 37:alpha:off
EnvFiles 34:alpha:off 35:beta:on
EtcdRangeStream 37:beta:on
EventedPLEG 31:alpha:off
EvictionRequestAPI 37:alpha:off
ExcludeAdmissionWebhookVirtualResources 37:beta:on
ExecProbeTimeout 31:ga:on 35:ga:on:locked
ExtendWebSocketsToKubelet 36:beta:on
ExternalServiceAccountTokenSigner 32:alpha:off 34:beta:on 36:ga:on:locked
GRPCContainerProbeTLS 37:alpha:off
GangScheduling 35:alpha:off 37:gone
GenericWorkload 35:alpha:off 37:beta:off
GitRepoVolumeDriver 33:deprecated:off 36:deprecated:off:locked
GracefulNodeShutdown 31:beta:on
GracefulNodeShutdownBasedOnPodPriority 31:beta:on
H2CContainerProbe 37:alpha:off
HPAConfigurableTolerance 33:alpha:off 35:beta:on 37:ga:on:locked
HPAContainerMetrics 31:ga:on:locked 32:gone
HPAGeneration 37:beta:on
HPAOptimizedSelectorStore 37:beta:on
HPAScaleToZero 31:alpha:off 37:beta:on
HonorPVReclaimPolicy 31:beta:on 33:ga:on:locked 36:gone
HostnameOverride 34:alpha:off 35:beta:on 37:ga:on:locked
HugepageAwareEviction 37:beta:on
ImageMaximumGCAge 31:beta:on 35:ga:on:locked
ImageVolume 31:alpha:off 33:beta:off 35:beta:on 36:ga:on:locked
ImageVolumeWithDigest 36:alpha:off
InOrderInformers 33:beta:on 36:ga:on:locked
InOrderInformersBatchProcess 35:beta:on
InPlacePodLevelResourcesVerticalScaling 35:alpha:off 36:beta:on
InPlacePodVerticalScaling 31:alpha:off 33:beta:on 35:ga:on:locked
InPlacePodVerticalScalingAllocatedStatus 32:alpha:off 33:deprecated:off 36:gone
InPlacePodVerticalScalingExclusiveCPUs 32:alpha:off
InPlacePodVerticalScalingExclusiveMemory 34:alpha:off
InPlacePodVerticalScalingInitContainers 36:beta:on 37:ga:on:locked
InPlacePodVerticalScalingMemoryBackedVolumes 37:alpha:off
InPlacePodVerticalScalingSchedulerPreemption 37:alpha:off
InTreePluginPortworxUnregister 31:alpha:off 36:gone
InformerResourceVersion 31:alpha:off 35:ga:on
InterPodAffinityHostnameFastPath 37:alpha:off
JobBackoffLimitPerIndex 31:beta:on 33:ga:on:locked 37:gone
JobManagedBy 31:alpha:off 32:beta:on 35:ga:on:locked
JobPodFailurePolicy 31:ga:on:locked 33:gone
JobPodReplacementPolicy 31:beta:on 34:ga:on:locked 37:gone
JobSuccessPolicy 31:beta:on 33:ga:on:locked 37:gone
KMSv1 31:deprecated:off
KMSv2 31:ga:on:locked 32:gone
KMSv2KDF 31:ga:on:locked 32:gone
KubeProxyDrainingTerminatingNodes 31:ga:on:locked 33:gone
KubeProxyIPVS 37:deprecated:on
KubeProxyNFTablesLocalhostNodePorts 37:alpha:off
KubeletAllocatedPodsEndpoint 37:alpha:off
KubeletCgroupDriverFromCRI 31:beta:on 34:ga:on:locked
KubeletCrashLoopBackOffMax 32:alpha:off 35:beta:on
KubeletEnsureSecretPulledImages 33:alpha:off 35:beta:on
KubeletFineGrainedAuthz 32:alpha:off 33:beta:on 36:ga:on:locked
KubeletInUserNamespace 31:alpha:off 37:beta:on
KubeletPSI 33:alpha:off 34:beta:on 36:ga:on:locked
KubeletPodResourcesDynamicResources 31:alpha:off 34:beta:on 36:ga:on:locked
KubeletPodResourcesGet 31:alpha:off 34:beta:on 36:ga:on:locked
KubeletPodResourcesListUseActivePods 34:deprecated:on
KubeletRegistrationGetOnExistsOnly 32:deprecated:off
KubeletSeparateDiskGC 31:beta:on
KubeletServiceAccountTokenForCredentialProviders 33:alpha:off 34:beta:on
KubeletTracing 31:beta:on 34:ga:on:locked
LegacyServiceAccountTokenCleanUp 31:ga:on:locked 32:gone
LegacySidecarContainers 33:deprecated:off 34:gone
ListFromCacheSnapshot 33:alpha:off 34:beta:on
LoadBalancerIPMode 31:beta:on 32:ga:on:locked 35:gone
LocalStorageCapacityIsolationFSQuotaMonitoring 31:beta:off
LogarithmicScaleDown 31:ga:on:locked 37:gone
LoggingAlphaOptions 31:alpha:off
LoggingBetaOptions 31:beta:on
ManifestBasedAdmissionControlConfig 36:alpha:off 37:beta:on
MatchLabelKeysInPodAffinity 31:beta:on 33:ga:on:locked
MatchLabelKeysInPodTopologySpread 31:beta:on
MatchLabelKeysInPodTopologySpreadSelectorMerge 34:beta:on
MaxUnavailableStatefulSet 31:alpha:off 35:beta:off 37:beta:on
MemoryManager 31:beta:on 32:ga:on:locked 36:gone
MemoryQoS 31:alpha:off 37:beta:on
MinDomainsInPodTopologySpread 31:ga:on:locked 32:gone
MultiCIDRServiceAllocator 31:beta:off 33:ga:on 34:ga:on:locked
MutableCSINodeAllocatableCount 33:alpha:off 34:beta:off 35:beta:on 36:ga:on:locked
MutablePVNodeAffinity 35:alpha:off
MutablePodResourcesForSuspendedJobs 35:alpha:off 36:beta:on
MutableSchedulingDirectivesForSuspendedJobs 35:alpha:off 36:beta:on
MutatingAdmissionPolicy 31:alpha:off 34:beta:off 36:ga:on
NFTablesNetlink 37:beta:on
NFTablesProxyMode 31:beta:on 33:ga:on:locked
NativeHistograms 36:alpha:off 37:beta:on
NewVolumeManagerReconstruction 31:ga:on:locked 32:gone
NodeControllerLeaseCircuitBreaker 37:beta:on
NodeDeclaredFeatures 35:alpha:off 36:beta:on 37:ga:on:locked
NodeInclusionPolicyInPodTopologySpread 31:beta:on 33:ga:on:locked
NodeLifecycleConditions 37:alpha:off
NodeLogQuery 31:beta:off 36:ga:on:locked
NodeOutOfServiceVolumeDetach 31:ga:on:locked 32:gone
NodeSwap 31:beta:on 34:ga:on:locked
NominatedNodeNameForExpectation 34:alpha:off 35:beta:on
OpenAPIEnums 31:beta:on
OpportunisticBatching 35:beta:on
OrderedNamespaceDeletion 32:beta:off 33:beta:on 34:ga:on:locked 37:gone
PDBUnhealthyPodEvictionPolicy 31:ga:on:locked 33:gone
PLEGOnDemandRelist 36:beta:on 37:ga:on:locked
PersistentVolumeClaimUnusedSinceTime 36:alpha:off 37:beta:on
PersistentVolumeLastPhaseTransitionTime 31:ga:on:locked 33:gone
PodAndContainerStatsFromCRI 31:alpha:off 37:beta:off
PodCertificateRequest 34:alpha:off 35:beta:off 37:ga:on
PodDeletionCost 31:beta:on
PodDisruptionConditions 31:ga:on:locked 34:gone
PodGroupPreemptionPolicy 37:alpha:off
PodHostIPs 31:ga:on:locked 32:gone
PodIndexLabel 31:beta:on 32:ga:on:locked 35:gone
PodLevelResourceManagers 36:alpha:off 37:beta:off
PodLevelResources 32:alpha:off 34:beta:on
PodLevelResourcesFixDefaulting 37:beta:on
PodLevelResourcesFixKubeletQOSClass 37:beta:on
PodLifecycleSleepAction 31:beta:on 34:ga:on:locked 37:gone
PodLifecycleSleepActionAllowZero 32:alpha:off 33:beta:on 34:ga:on:locked 37:gone
PodLogsQuerySplitStreams 32:alpha:off
PodObservedGenerationTracking 33:alpha:off 34:beta:on 35:ga:on:locked
PodReadyToStartContainersCondition 31:beta:on 37:ga:on:locked
PodSchedulingReadiness 31:ga:on:locked
PodTopologyLabelsAdmission 33:alpha:off 35:beta:on
PodsAPI 36:alpha:off 37:beta:on
PortForwardWebsockets 31:beta:on
PreferSameTrafficDistribution 33:alpha:off 34:beta:on 35:ga:on:locked
PreventStaticPodAPIReferences 34:beta:on 37:gone
ProbeHostPodSecurityStandards 34:ga:on:locked 35:gone
ProcMountType 31:beta:off 33:beta:on 36:ga:on:locked
QOSReserved 31:alpha:off
RecoverVolumeExpansionFailure 31:alpha:off 32:beta:on 34:ga:on:locked
RecursiveReadOnlyMounts 31:beta:on 33:ga:on:locked
ReduceDefaultCrashLoopBackOffDecay 33:alpha:off
RelaxedDNSSearchValidation 32:alpha:off 33:beta:on 34:ga:on:locked 37:gone
RelaxedEnvironmentVariableValidation 31:alpha:off 32:beta:on 34:ga:on:locked
RelaxedServiceNameValidation 34:alpha:off 36:beta:on 37:ga:on:locked
ReloadKubeletClientCAFile 36:beta:on
ReloadKubeletServerCertificateFile 31:beta:on
RemainingItemCount 31:ga:on:locked 33:gone
RemoteRequestHeaderUID 32:alpha:off 33:beta:on
ResilientWatchCacheInitialization 31:beta:on 34:ga:on:locked 37:gone
ResourceHealthStatus 31:alpha:off 36:beta:on
ResourceHealthStatusMessage 36:beta:on
RestartAllContainersOnContainerExits 35:alpha:off 36:beta:on
RetryGenerateName 31:beta:on 32:ga:on:locked 37:gone
RotateKubeletServerCertificate 31:beta:on
RuntimeClassInImageCriApi 31:alpha:off
SELinuxChangePolicy 32:alpha:off 33:beta:on 36:ga:on:locked
SELinuxMount 31:alpha:off 33:beta:off 37:ga:on
SELinuxMountReadWriteOncePod 31:beta:on 36:ga:on:locked
SchedulerAsyncAPICalls 34:beta:off
SchedulerAsyncPreemption 32:alpha:off 33:beta:on
SchedulerPopFromBackoffQ 33:beta:on
SchedulerPreQueueingHints 37:alpha:off
SchedulerQueueingHints 31:beta:off 32:beta:on 34:ga:on:locked 37:gone
SeparateCacheWatchRPC 31:beta:on 33:deprecated:off 36:deprecated:off:locked
SeparateTaintEvictionController 31:beta:on 34:ga:on:locked
ServerSideApply 31:ga:on:locked 32:gone
ServerSideFieldValidation 31:ga:on:locked 32:gone
ServiceAccountNodeAudienceRestriction 32:beta:off 33:beta:on
ServiceAccountTokenJTI 31:beta:on 32:ga:on:locked
ServiceAccountTokenNodeBinding 31:beta:on 33:ga:on:locked
ServiceAccountTokenNodeBindingValidation 31:beta:on 32:ga:on:locked
ServiceAccountTokenPodNodeInfo 31:beta:on 32:ga:on:locked
ServiceCIDRStatusFieldWiping 36:deprecated:on
ServiceTrafficDistribution 31:beta:on 33:ga:on:locked 36:gone
ShardedListAndWatch 36:alpha:off
SidecarContainers 31:beta:on 33:ga:on:locked 37:gone
SizeBasedListCostEstimate 34:beta:on
SizeMemoryBackedVolumes 31:beta:on 32:ga:on:locked 35:gone
StableLoadBalancerNodeSet 31:ga:on:locked 32:gone
StaleControllerConsistencyDaemonSet 36:beta:on
StaleControllerConsistencyHPA 37:beta:on
StaleControllerConsistencyJob 36:beta:on
StaleControllerConsistencyReplicaSet 36:beta:on
StaleControllerConsistencyStatefulSet 36:beta:on
StatefulSetAutoDeletePVC 31:beta:on 32:ga:on:locked 35:gone
StatefulSetRecreateStrategy 37:alpha:off
StatefulSetSemanticRevisionComparison 34:beta:on
StatefulSetStartOrdinal 31:ga:on:locked 34:gone
StorageCapacityScoring 33:alpha:off 37:beta:on
StorageNamespaceIndex 31:beta:on 33:deprecated:on
StorageVersionAPI 31:alpha:off
StorageVersionHash 31:beta:on
StorageVersionMigrator 31:alpha:off 35:beta:off 37:ga:on
StreamingCollectionEncodingToJSON 33:beta:on 34:ga:on:locked 37:gone
StreamingCollectionEncodingToProtobuf 33:beta:on 34:ga:on:locked 37:gone
StrictCostEnforcementForVAP 31:beta:off 32:ga:on:locked 35:gone
StrictCostEnforcementForWebhooks 31:beta:off 32:ga:on:locked 35:gone
StrictIPCIDRValidation 33:alpha:off 36:beta:on
StructuredAuthenticationConfiguration 31:beta:on 34:ga:on:locked 37:gone
StructuredAuthenticationConfigurationEgressSelector 34:beta:on
StructuredAuthenticationConfigurationJWKSMetrics 35:beta:on
StructuredAuthorizationConfiguration 31:beta:on 32:ga:on:locked 36:gone
SupplementalGroupsPolicy 31:alpha:off 33:beta:on 35:ga:on:locked
SystemdWatchdog 32:beta:on 35:ga:on:locked
TaintTolerationComparisonOperators 35:alpha:off
TokenRequestServiceAccountUIDValidation 34:beta:on
TopologyAwareHints 31:beta:on 33:ga:on:locked 36:gone
TopologyAwareWorkloadScheduling 36:alpha:off
TopologyManagerPolicyAlphaOptions 31:alpha:off
TopologyManagerPolicyBetaOptions 31:beta:on
TopologyManagerPolicyOptions 31:beta:on 32:ga:on 36:ga:on:locked
TranslateStreamCloseWebsocketRequests 31:beta:on
UnauthenticatedHTTP2DOSMitigation 31:beta:on
UnknownVersionInteroperabilityProxy 31:alpha:off 36:beta:on
UnlockWhileProcessingFIFO 36:beta:on
UserNamespacesHostNetworkSupport 35:alpha:off
UserNamespacesPodSecurityStandards 31:alpha:off 35:gone
UserNamespacesSupport 31:beta:off 33:beta:on 36:ga:on:locked
ValidatingAdmissionPolicy 31:ga:on:locked 32:gone
VolumeAttributesClass 31:beta:off 34:ga:on 36:ga:on:locked
VolumeBindMountOptions 37:alpha:off
VolumeCapacityPriority 31:alpha:off 33:gone
VolumeLimitScaling 35:alpha:off 37:beta:on
WatchBookmark 31:ga:on:locked 33:gone
WatchCacheInitializationPostStartHook 31:beta:off 36:beta:on 37:ga:on:locked
WatchFromStorageWithoutResourceVersion 31:beta:off 33:deprecated:off:locked 36:gone
WatchList 31:alpha:off 32:beta:on 33:beta:off 34:beta:on
WatchListClient 31:beta:off 35:beta:on
WatchListCompression 37:beta:on
WebhookRoundTripLoadBalancing 37:beta:on
WinDSR 31:alpha:off 33:beta:on 34:ga:on:locked
WinOverlay 31:beta:on 34:ga:on:locked
WindowsCPUAndMemoryAffinity 32:alpha:off
WindowsGracefulNodeShutdown 32:alpha:off 34:beta:on
WindowsHostNetwork 31:alpha:on 33:deprecated:off
WorkloadAwarePreemption 36:alpha:off 37:gone
WorkloadWithJob 36:alpha:off
ZeroLimitedNominalConcurrencyShares 31:ga:on:locked 32:gone
"""

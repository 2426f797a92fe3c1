"""The feature gates that kube-scheduler v1.31.1 accepts, and what --feature-gates changes here.

The names are those of the packages that kube-scheduler links (pkg/features, apiserver, component-base, client-go). All
are accepted; those in `release.FeatureGates` change what is decided. The order in which AllAlpha, AllBeta and single
gates apply is featuregate.go's.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from extender_service.config.release import FEATURE_GATES, FeatureGates

# The fields of FeatureGates.
_FIELDS = {
    "VolumeCapacityPriority": "volume_capacity_priority",
    "SchedulerQueueingHints": "scheduler_queueing_hints",
}
_STAGES = {"AllAlpha": "Alpha", "AllBeta": "Beta"}


class KnownGate(NamedTuple):
    """A feature gate: `stage` is Alpha, Beta, GA or Deprecated; a locked one can only be set to its default."""

    stage: str
    default: bool
    is_locked: bool


class GateSettings(NamedTuple):
    """What --feature-gates asks for: the gates that are followed, and the names of others that differ from default."""

    gates: FeatureGates
    without_effect: tuple[str, ...]


def parse_gates(text: str) -> dict[str, bool]:
    """Parse one value of --feature-gates, such as A=true,kube:B=false. Raises ValueError, which names the gate."""
    settings: dict[str, bool] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        component, colon, of_component = name.strip().partition(":")
        name = of_component if colon else component
        if colon and component != "kube":
            raise ValueError(f"component {component!r} is not known: write kube:{name}, or {name}")
        if name not in KNOWN_GATES and name not in _STAGES:
            raise ValueError(f"unrecognized feature gate: {name}")
        if not equals:
            raise ValueError(f"missing bool value for {name}: write {name}=true or {name}=false")
        settings[name] = _is_on(name, value.strip())
    return settings


def resolve_gates(given: Iterable[Mapping[str, bool]]) -> GateSettings:
    """Return what all values of --feature-gates say together: a later one overrides an earlier one."""
    settings: dict[str, bool] = {}
    for values in given:
        settings.update(values)
    wanted = {name: gate.default for name, gate in KNOWN_GATES.items()}
    for all_of, stage in _STAGES.items():
        if all_of in settings:
            wanted |= {name: settings[all_of] for name, gate in KNOWN_GATES.items() if gate.stage == stage}
    wanted |= {name: value for name, value in settings.items() if name in KNOWN_GATES}
    followed = FEATURE_GATES._replace(**{field: wanted[name] for name, field in _FIELDS.items()})
    others = [name for name in settings if name in KNOWN_GATES and name not in _FIELDS]
    return GateSettings(followed, tuple(name for name in others if wanted[name] != KNOWN_GATES[name].default))


def _is_on(name: str, value: str) -> bool:
    try:
        is_on = parse_bool(value)
    except ValueError as error:
        raise ValueError(f"invalid value of {name}: {error}") from None
    gate = KNOWN_GATES.get(name)
    if gate is not None and gate.is_locked and is_on != gate.default:
        default = str(gate.default).lower()
        raise ValueError(f"cannot set feature gate {name} to {value}, feature is locked to {default}")
    return is_on


def parse_bool(text: str) -> bool:
    """Read a truth value as Go's strconv.ParseBool does. Raises ValueError."""
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if text in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise ValueError(f"{text!r} is neither true nor false")


def _known(stage: str, names: str, *, default: bool, is_locked: bool = False) -> dict[str, KnownGate]:
    return dict.fromkeys(names.split(), KnownGate(stage, default, is_locked))


KNOWN_GATES: Mapping[str, KnownGate] = {
    **_known(
        "Alpha",
        """
        APIServingWithRoutine AnonymousAuthConfigurableEndpoints AuthorizeNodeWithSelectors AuthorizeWithSelectors
        CPUManagerPolicyAlphaOptions CSIVolumeHealth CloudControllerManagerWebhook ClusterTrustBundle
        ClusterTrustBundleProjection CoordinatedLeaderElection CrossNamespaceVolumeDataSource
        CustomCPUCFSQuotaPeriod DRAControlPlaneController DisableAllocatorDualWrite DynamicResourceAllocation
        EventedPLEG HPAScaleToZero ImageVolume InPlacePodVerticalScaling InTreePluginPortworxUnregister
        InformerResourceVersion JobManagedBy KubeletInUserNamespace KubeletPodResourcesDynamicResources
        KubeletPodResourcesGet LoggingAlphaOptions MaxUnavailableStatefulSet MemoryQoS MutatingAdmissionPolicy
        PodAndContainerStatsFromCRI QOSReserved RecoverVolumeExpansionFailure RelaxedEnvironmentVariableValidation
        ResourceHealthStatus RuntimeClassInImageCriApi SELinuxMount StorageVersionAPI StorageVersionMigrator
        SupplementalGroupsPolicy TopologyManagerPolicyAlphaOptions UnknownVersionInteroperabilityProxy
        UserNamespacesPodSecurityStandards VolumeCapacityPriority WatchList WinDSR
        """,
        default=False,
    ),
    **_known(
        "Alpha",
        """
        WindowsHostNetwork
        """,
        default=True,
    ),
    **_known(
        "Beta",
        """
        ConcurrentWatchObjectDecode LocalStorageCapacityIsolationFSQuotaMonitoring MultiCIDRServiceAllocator
        NodeLogQuery ProcMountType SchedulerQueueingHints StrictCostEnforcementForVAP
        StrictCostEnforcementForWebhooks UserNamespacesSupport VolumeAttributesClass
        WatchCacheInitializationPostStartHook WatchFromStorageWithoutResourceVersion WatchListClient
        """,
        default=False,
    ),
    **_known(
        "Beta",
        """
        APIResponseCompression APIServerIdentity APIServerTracing AnyVolumeDataSource CPUManagerPolicyBetaOptions
        CPUManagerPolicyOptions CRDValidationRatcheting CSIMigrationPortworx ComponentSLIs ConsistentListFromCache
        ContainerCheckpoint ContextualLogging CronJobsScheduledAnnotation CustomResourceFieldSelectors
        GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority HonorPVReclaimPolicy ImageMaximumGCAge
        JobBackoffLimitPerIndex JobPodReplacementPolicy JobSuccessPolicy KubeletCgroupDriverFromCRI
        KubeletSeparateDiskGC KubeletTracing LoadBalancerIPMode LoggingBetaOptions MatchLabelKeysInPodAffinity
        MatchLabelKeysInPodTopologySpread MemoryManager NFTablesProxyMode NodeInclusionPolicyInPodTopologySpread
        NodeSwap OpenAPIEnums PodDeletionCost PodIndexLabel PodLifecycleSleepAction
        PodReadyToStartContainersCondition PortForwardWebsockets RecursiveReadOnlyMounts
        ReloadKubeletServerCertificateFile ResilientWatchCacheInitialization RetryGenerateName
        RotateKubeletServerCertificate SELinuxMountReadWriteOncePod SeparateCacheWatchRPC
        SeparateTaintEvictionController ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
        ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo ServiceTrafficDistribution
        SidecarContainers SizeMemoryBackedVolumes StatefulSetAutoDeletePVC StorageNamespaceIndex StorageVersionHash
        StructuredAuthenticationConfiguration StructuredAuthorizationConfiguration TopologyAwareHints
        TopologyManagerPolicyBetaOptions TopologyManagerPolicyOptions TranslateStreamCloseWebsocketRequests
        UnauthenticatedHTTP2DOSMitigation WinOverlay
        """,
        default=True,
    ),
    **_known(
        "Deprecated",
        """
        AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests AllowServiceLBStatusOnNonLB
        DisableNodeKubeProxyVersion KMSv1
        """,
        default=False,
    ),
    **_known(
        "GA",
        """
        ExecProbeTimeout
        """,
        default=True,
    ),
    **_known(
        "GA",
        """
        APIListChunking AdmissionWebhookMatchConditions AggregatedDiscoveryEndpoint AppArmor AppArmorFields
        CPUManager CloudDualStackNodeIPs DevicePluginCDIDevices DisableCloudProviders
        DisableKubeletCloudCredentialProviders EfficientWatchResumption ElasticIndexedJob HPAContainerMetrics
        JobPodFailurePolicy KMSv2 KMSv2KDF KubeProxyDrainingTerminatingNodes LegacyServiceAccountTokenCleanUp
        LogarithmicScaleDown MinDomainsInPodTopologySpread NewVolumeManagerReconstruction
        NodeOutOfServiceVolumeDetach PDBUnhealthyPodEvictionPolicy PersistentVolumeLastPhaseTransitionTime
        PodDisruptionConditions PodHostIPs PodSchedulingReadiness RemainingItemCount ServerSideApply
        ServerSideFieldValidation StableLoadBalancerNodeSet StatefulSetStartOrdinal ValidatingAdmissionPolicy
        WatchBookmark ZeroLimitedNominalConcurrencyShares
        """,
        default=True,
        is_locked=True,
    ),
}

"""Fields of Kubernetes' objects that are not decoded, and why that is right.

To follow a newer release: raise the versions in tests/kubernetes_1_37/go.mod, run `python -m tests.api_fields`, and
answer for each field that the test then names. A field that a plugin reads is decoded and judged, or it is refused by
scheduling/unsupported.py and stands in NOT_JUDGED.
"""

from extender_service.scheduling.unsupported import DEFERRED_RESIZE, RESOURCE_CLAIMS, SCHEDULING_GROUP

# By the Go struct that declares them: fields that no code reads which kube-scheduler can reach. What they hold is not
# read either.
NO_PLUGIN_READS = """
core/v1.CSIPersistentVolumeSource: controllerExpandSecretRef controllerPublishSecretRef fsType nodeExpandSecretRef
  nodePublishSecretRef nodeStageSecretRef readOnly
core/v1.CSIVolumeSource: fsType nodePublishSecretRef readOnly volumeAttributes
core/v1.CinderPersistentVolumeSource: secretRef
core/v1.CinderVolumeSource: secretRef
core/v1.Container: args command env envFrom imagePullPolicy lifecycle livenessProbe readinessProbe resizePolicy
  securityContext startupProbe stdin stdinOnce terminationMessagePath terminationMessagePolicy tty volumeDevices
  workingDir
core/v1.ContainerPort: containerPort name
core/v1.ContainerRestartRule: exitCodes
core/v1.ContainerStatus: allocatedResourcesStatus containerID image imageID lastState ready restartCount started state
  stopSignal user volumeMounts
core/v1.EphemeralContainer: args command env envFrom image imagePullPolicy lifecycle livenessProbe ports
  readinessProbe resizePolicy resources restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce
  targetContainerName terminationMessagePath terminationMessagePolicy tty volumeDevices workingDir
core/v1.EphemeralVolumeSource: volumeClaimTemplate
core/v1.ISCSIVolumeSource: chapAuthDiscovery chapAuthSession fsType initiatorName iscsiInterface lun portals secretRef
  targetPortal
core/v1.ImageVolumeSource: pullPolicy
core/v1.NodeCondition: lastHeartbeatTime lastTransitionTime message reason
core/v1.NodeSpec: configSource externalID podCIDR podCIDRs providerID
core/v1.NodeStatus: addresses capacity config daemonEndpoints features nodeInfo phase runtimeHandlers volumesAttached
  volumesInUse
core/v1.ObjectReference: apiVersion fieldPath kind
core/v1.PersistentVolumeClaimSpec: dataSource dataSourceRef
core/v1.PersistentVolumeClaimStatus: accessModes allocatedResourceStatuses allocatedResources capacity conditions
  currentVolumeAttributesClassName healthStatus modifyVolumeStatus
core/v1.PersistentVolumeClaimVolumeSource: readOnly
core/v1.PersistentVolumeSpec: cephfs fc flexVolume flocker glusterfs hostPath iscsi local mountOptions nfs
  persistentVolumeReclaimPolicy photonPersistentDisk quobyte rbd scaleIO storageos
core/v1.PersistentVolumeStatus: lastPhaseTransitionTime message reason
core/v1.PodAffinityTerm: matchLabelKeys mismatchLabelKeys
core/v1.PodSpec: automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks evictionResponders hostAliases
  hostIPC hostPID hostname hostnameOverride imagePullSecrets os priorityClassName readinessGates restartPolicy
  runtimeClassName securityContext serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain
core/v1.PodStatus: ephemeralContainerStatuses hostIP hostIPs message observedGeneration podIP podIPs qosClass reason
  resize volumeHealth
core/v1.RBDVolumeSource: fsType keyring secretRef user
core/v1.Toleration: tolerationSeconds
core/v1.Volume: cephfs downwardAPI emptyDir fc flexVolume flocker gitRepo glusterfs hostPath nfs photonPersistentDisk
  projected quobyte scaleIO storageos
core/v1.VolumeMount: mountPath mountPropagation name readOnly recursiveReadOnly subPath subPathExpr
core/v1.VolumeResourceRequirements: limits
core/v1.VsphereVirtualDiskVolumeSource: storagePolicyID
meta/v1.ObjectMeta: deletionGracePeriodSeconds generateName managedFields selfLink
meta/v1.OwnerReference: blockOwnerDeletion
storage/v1.CSIDriverSpec: attachRequired fsGroupPolicy nodeAllocatableUpdatePeriodSeconds podInfoOnMount
  requiresRepublish seLinuxMount serviceAccountTokenInSecrets tokenRequests volumeLifecycleModes
storage/v1.CSINode: status
storage/v1.CSINodeDriver: nodeID topologyKeys
storage/v1.StorageClass: allowVolumeExpansion mountOptions parameters reclaimPolicy
storage/v1.VolumeAttachment: status
storage/v1.VolumeAttachmentSource: inlineVolumeSpec
"""

# By path, in which * stands for any part: fields that are read, but decide nothing here.
_TRANSLATED = "only copied to the volume of the CSI driver, of which plugins read the driver, the handle and the nodes"
_NOT_MIGRATED = "kube-scheduler translates no volumes of this kind"
DECIDES_NOTHING = {
    "*.apiVersion": "known from where the object was read",
    "*.kind": "known from where the object was read",
    "*.metadata.finalizers": "read of ResourceClaims",
    "*.metadata.generation": "copied to the conditions that kube-scheduler writes",
    "Pod.status.conditions.lastProbeTime": "copied to the conditions that kube-scheduler writes",
    "Pod.status.conditions.observedGeneration": "copied to the conditions that kube-scheduler writes",
    "Pod.spec.*.resources.claims": "names one of spec.resourceClaims",
    "Pod.spec.resources.claims": "names one of spec.resourceClaims",
    "Pod.spec.resourceClaims.*": "the claims as a whole are not judged",
    "Pod.status.*.resources.claims": "names one of spec.resourceClaims",
    "Pod.status.resources.claims": "names one of spec.resourceClaims",
    "Pod.status.*.resources.limits": "only read for /metrics/resources, of pods that run",
    "Pod.status.resources.limits": "only read for /metrics/resources, of pods that run",
    "VolumeAttributesClass": "plugins compare the names of classes, which volumes and claims have",
    "Pod.spec.volumes.configMap": "only read to recognise pods that are alike, which no extender allows",
    "Pod.spec.volumes.secret": "only read to recognise pods that are alike, which no extender allows",
    "*.spec.*.fsType": _TRANSLATED,
    "*.spec.*.partition": _TRANSLATED,
    "*.spec.*.readOnly": _TRANSLATED,
    "*.spec.*.cachingMode": _TRANSLATED,
    "PersistentVolume.spec.csi.volumeAttributes": "read to translate volumes back, which only changes zone labels",
    "*.azureFile.s*": _NOT_MIGRATED,
    "*.vsphereVolume.storagePolicyName": _NOT_MIGRATED,
    "*.vsphereVolume.volumePath": _NOT_MIGRATED,
}

# By path: what plugins of a release judge and this program does not. Pods with that field are refused.
NOT_JUDGED = {
    "Pod.status.nodeAllocatableResourceClaimStatuses": RESOURCE_CLAIMS,
    "ResourceClaim": RESOURCE_CLAIMS,
    "ResourceClaimTemplate": RESOURCE_CLAIMS,
    "ResourceSlice": RESOURCE_CLAIMS,
    "DeviceTaintRule": RESOURCE_CLAIMS,
    "Pod.spec.schedulingGroup.podGroupName": SCHEDULING_GROUP,
    "Node.spec.podPreemptionPolicy": DEFERRED_RESIZE,
}

# By path: what lets plugins leave an extended resource to DynamicResources. Here, a pod that asks for such a resource
# is judged by what nodes offer themselves, which is too strict (docs/plugins.md).
EXTENDED_RESOURCES_OF_CLAIMS = {"DeviceClass"}

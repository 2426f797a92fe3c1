"""The one list of the in-tree plugins. Which of them run by default, a configuration says (config/defaulting.py)."""

from extender_service.config.args import ArgsTypes, PluginArgs
from extender_service.framework.interface import Plugin
from extender_service.plugins.default_binder import DefaultBinder
from extender_service.plugins.default_preemption import DefaultPreemption
from extender_service.plugins.dynamic_resources import DynamicResources
from extender_service.plugins.image_locality import ImageLocality
from extender_service.plugins.in_tree_volume_limits import AzureDiskLimits, CinderLimits, EBSLimits, GCEPDLimits
from extender_service.plugins.inter_pod_affinity.plugin import InterPodAffinity
from extender_service.plugins.node_affinity import NodeAffinity
from extender_service.plugins.node_declared_features import NodeDeclaredFeatures
from extender_service.plugins.node_label import NodeLabel
from extender_service.plugins.node_name import NodeName
from extender_service.plugins.node_ports import NodePorts
from extender_service.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from extender_service.plugins.node_resources.fit import NodeResourcesFit
from extender_service.plugins.node_unschedulable import NodeUnschedulable
from extender_service.plugins.node_volume_limits import NodeVolumeLimits
from extender_service.plugins.pod_topology_spread.plugin import PodTopologySpread
from extender_service.plugins.queue_sort import PrioritySort
from extender_service.plugins.scheduling_gates import SchedulingGates
from extender_service.plugins.taint_toleration import TaintToleration
from extender_service.plugins.volume_binding.plugin import VolumeBinding
from extender_service.plugins.volume_restrictions import VolumeRestrictions
from extender_service.plugins.volume_zone import VolumeZone

IN_TREE: tuple[type[Plugin], ...] = (
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    DynamicResources,
    DefaultPreemption,
    DefaultBinder,
    NodeDeclaredFeatures,
    NodeLabel,
    EBSLimits,
    GCEPDLimits,
    AzureDiskLimits,
    CinderLimits,
)

# The types of the arguments of those that have some, by plugin.
ARGS_TYPES: ArgsTypes = {
    plugin.name: plugin.args_type
    for plugin in IN_TREE
    if plugin.args_type is not None and issubclass(plugin.args_type, PluginArgs)
}

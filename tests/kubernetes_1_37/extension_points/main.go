// Command extension_points prints the extension points that each in-tree plugin of kube-scheduler v1.37.2 implements, as
// JSON. Run it in its module: go run ./extension_points >../unit/config/golden/extension_points_1_37.json
package main

import (
	"encoding/json"
	"log"
	"os"
	"sort"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/deferredpodscheduling"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/gangscheduling"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/imagelocality"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodedeclaredfeatures"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodename"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podgrouppodscount"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/schedulinggates"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/topologyaware"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumerestrictions"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumezone"
)

// types has a pointer of each plugin's type. The type alone says what it implements.
var types = map[string]any{
	names.DefaultBinder:                   (*defaultbinder.DefaultBinder)(nil),
	names.DefaultPreemption:               (*defaultpreemption.DefaultPreemption)(nil),
	names.DeferredPodScheduling:           (*deferredpodscheduling.DeferredPodScheduling)(nil),
	names.DynamicResources:                (*dynamicresources.DynamicResources)(nil),
	names.GangScheduling:                  (*gangscheduling.GangScheduling)(nil),
	names.ImageLocality:                   (*imagelocality.ImageLocality)(nil),
	names.InterPodAffinity:                (*interpodaffinity.InterPodAffinity)(nil),
	names.NodeAffinity:                    (*nodeaffinity.NodeAffinity)(nil),
	names.NodeDeclaredFeatures:            (*nodedeclaredfeatures.NodeDeclaredFeatures)(nil),
	names.NodeName:                        (*nodename.NodeName)(nil),
	names.NodePorts:                       (*nodeports.NodePorts)(nil),
	names.NodeResourcesBalancedAllocation: (*noderesources.BalancedAllocation)(nil),
	names.NodeResourcesFit:                (*noderesources.Fit)(nil),
	names.NodeUnschedulable:               (*nodeunschedulable.NodeUnschedulable)(nil),
	names.NodeVolumeLimits:                (*nodevolumelimits.CSILimits)(nil),
	names.PodGroupPodsCount:               (*podgrouppodscount.PodGroupPodsCount)(nil),
	names.PodTopologySpread:               (*podtopologyspread.PodTopologySpread)(nil),
	names.PrioritySort:                    (*queuesort.PrioritySort)(nil),
	names.SchedulingGates:                 (*schedulinggates.SchedulingGates)(nil),
	names.TaintToleration:                 (*tainttoleration.TaintToleration)(nil),
	names.TopologyPlacementGenerator:      (*topologyaware.TopologyPlacement)(nil),
	names.VolumeBinding:                   (*volumebinding.VolumeBinding)(nil),
	names.VolumeRestrictions:              (*volumerestrictions.VolumeRestrictions)(nil),
	names.VolumeZone:                      (*volumezone.VolumeZone)(nil),
}

// implemented says of each extension point whether a plugin implements it.
var implemented = map[string]func(any) bool{
	"preEnqueue": is[fwk.PreEnqueuePlugin],
	"queueSort":  is[fwk.QueueSortPlugin],
	"preFilter":  is[fwk.PreFilterPlugin],
	"filter":     is[fwk.FilterPlugin],
	"postFilter": is[fwk.PostFilterPlugin],
	"preScore":   is[fwk.PreScorePlugin],
	"score":      is[fwk.ScorePlugin],
	"reserve":    is[fwk.ReservePlugin],
	"permit":     is[fwk.PermitPlugin],
	"preBind":    is[fwk.PreBindPlugin],
	"bind":       is[fwk.BindPlugin],
	"postBind":   is[fwk.PostBindPlugin],
}

func is[P any](plugin any) bool {
	_, ok := plugin.(P)
	return ok
}

func main() {
	found := map[string][]string{}
	for name := range plugins.NewInTreeRegistry() {
		plugin, ok := types[name]
		if !ok {
			log.Fatalf("extension_points: the type of %s is missing", name)
		}
		found[name] = []string{}
		for point, isOne := range implemented {
			if isOne(plugin) {
				found[name] = append(found[name], point)
			}
		}
		sort.Strings(found[name])
	}
	if err := json.NewEncoder(os.Stdout).Encode([]any{found}); err != nil {
		log.Fatal(err)
	}
}

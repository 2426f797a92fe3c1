package main

import (
	"context"
	"sort"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

type named string

func (n named) Name() string { return string(n) }

// exampleSort is a user's queue sort plugin.
type exampleSort struct{ named }

func (exampleSort) Less(*framework.QueuedPodInfo, *framework.QueuedPodInfo) bool { return false }

// exampleFit is a user's plugin for several extension points.
type exampleFit struct{ named }

func (exampleFit) Filter(context.Context, *framework.CycleState, *v1.Pod, *framework.NodeInfo) *framework.Status {
	return nil
}

func (exampleFit) Score(context.Context, *framework.CycleState, *v1.Pod, string) (int64, *framework.Status) {
	return 0, nil
}

func (exampleFit) ScoreExtensions() framework.ScoreExtensions { return nil }

func (exampleFit) Reserve(context.Context, *framework.CycleState, *v1.Pod, string) *framework.Status {
	return nil
}

func (exampleFit) Unreserve(context.Context, *framework.CycleState, *v1.Pod, string) {}

// exampleBinder is a user's bind plugin.
type exampleBinder struct{ named }

func (exampleBinder) Bind(context.Context, *framework.CycleState, *v1.Pod, string) *framework.Status {
	return nil
}

// examples are the user's plugins that the cases may name.
func examples() frameworkruntime.Registry {
	registry := frameworkruntime.Registry{}
	for _, plugin := range []framework.Plugin{
		exampleSort{"ExampleSort"}, exampleFit{"ExampleFit"}, exampleBinder{"ExampleBinder"},
	} {
		registry[plugin.Name()] = func(context.Context, runtime.Object, framework.Handle) (framework.Plugin, error) {
			return plugin, nil
		}
	}
	return registry
}

// byPoint gives [name, weight] of the enabled plugins by extension point.
func byPoint(set *config.Plugins) map[string][][2]any {
	sets := map[string]config.PluginSet{
		"preEnqueue": set.PreEnqueue, "queueSort": set.QueueSort, "preFilter": set.PreFilter, "filter": set.Filter,
		"postFilter": set.PostFilter, "preScore": set.PreScore, "score": set.Score, "reserve": set.Reserve,
		"permit": set.Permit, "preBind": set.PreBind, "bind": set.Bind, "postBind": set.PostBind,
	}
	enabled := map[string][][2]any{}
	for point, set := range sets {
		for _, plugin := range set.Enabled {
			enabled[point] = append(enabled[point], [2]any{plugin.Name, plugin.Weight})
		}
	}
	return enabled
}

// extensionPoints gives the extension points that each known plugin implements.
func extensionPoints(ctx context.Context) map[string][]string {
	registry := plugins.NewInTreeRegistry()
	if err := registry.Merge(examples()); err != nil {
		panic(err)
	}
	client := fake.NewSimpleClientset()
	handle, err := frameworkruntime.NewFramework(ctx, nil, nil,
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(client, 0)),
		frameworkruntime.WithSnapshotSharedLister(noNodes{}),
	)
	if err != nil {
		panic(err)
	}
	points := map[string][]string{}
	for name, factory := range registry {
		plugin, err := factory(ctx, defaultArgs(name), handle)
		if err != nil {
			panic(err)
		}
		points[name] = implemented(plugin)
	}
	return points
}

// defaultArgs gives the default arguments of a plugin; nil if it has none.
func defaultArgs(name string) runtime.Object {
	scheme := configv1.GetPluginArgConversionScheme()
	versioned, err := scheme.New(configv1.SchemeGroupVersion.WithKind(name + "Args"))
	if err != nil {
		return nil
	}
	scheme.Default(versioned)
	args, err := scheme.ConvertToVersion(versioned, config.SchemeGroupVersion)
	if err != nil {
		panic(err)
	}
	return args
}

// noNodes is a snapshot of an empty cluster, which plugins want to see when they are made.
type noNodes struct{ framework.SharedLister }

func implemented(plugin framework.Plugin) []string {
	points := []string{}
	add := func(point string, ok bool) {
		if ok {
			points = append(points, point)
		}
	}
	_, ok := plugin.(framework.PreEnqueuePlugin)
	add("preEnqueue", ok)
	_, ok = plugin.(framework.QueueSortPlugin)
	add("queueSort", ok)
	_, ok = plugin.(framework.PreFilterPlugin)
	add("preFilter", ok)
	_, ok = plugin.(framework.FilterPlugin)
	add("filter", ok)
	_, ok = plugin.(framework.PostFilterPlugin)
	add("postFilter", ok)
	_, ok = plugin.(framework.PreScorePlugin)
	add("preScore", ok)
	_, ok = plugin.(framework.ScorePlugin)
	add("score", ok)
	_, ok = plugin.(framework.ReservePlugin)
	add("reserve", ok)
	_, ok = plugin.(framework.PermitPlugin)
	add("permit", ok)
	_, ok = plugin.(framework.PreBindPlugin)
	add("preBind", ok)
	_, ok = plugin.(framework.BindPlugin)
	add("bind", ok)
	_, ok = plugin.(framework.PostBindPlugin)
	add("postBind", ok)
	sort.Strings(points)
	return points
}

//go:build !before_1_34

package main

import (
	"context"

	"k8s.io/client-go/informers"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// deviceOptions are what DynamicResources needs, which is part of the default
// profile; its hints are left out.
func deviceOptions(ctx context.Context, factory informers.SharedInformerFactory) ([]frameworkruntime.Option, error) {
	group := factory.Resource().V1()
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), group.ResourceClaims().Informer(), "ResourceClaim", "", nil)
	slices, err := tracker.StartTracker(ctx, tracker.Options{SliceInformer: group.ResourceSlices()})
	if err != nil {
		return nil, err
	}
	manager := dynamicresources.NewDRAManager(ctx, claims, slices, factory)
	return []frameworkruntime.Option{frameworkruntime.WithSharedDRAManager(manager)}, nil
}

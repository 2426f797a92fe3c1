//go:build !before_1_34

package main

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	resourcev1 "k8s.io/client-go/kubernetes/typed/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// deviceKinds are those whose informers DynamicResources always asks for.
var deviceKinds = append([]runtime.Object{
	&resourceapi.ResourceClaim{}, &resourceapi.ResourceSlice{}, &resourceapi.DeviceClass{},
}, deviceTaintKinds...)

// claimsClient accepts the changes that DynamicResources makes to claims.
type claimsClient struct {
	kubernetes.Interface
}

type nopResource struct {
	resourcev1.ResourceV1Interface
}

type nopClaims struct {
	resourcev1.ResourceClaimInterface
}

func (claimsClient) ResourceV1() resourcev1.ResourceV1Interface { return nopResource{} }

func (nopResource) ResourceClaims(string) resourcev1.ResourceClaimInterface { return nopClaims{} }

func (nopClaims) UpdateStatus(_ context.Context, claim *resourceapi.ResourceClaim, _ metav1.UpdateOptions) (*resourceapi.ResourceClaim, error) {
	return claim, nil
}

func (nopClaims) Delete(context.Context, string, metav1.DeleteOptions) error { return nil }

// deviceOptions let DynamicResources know the claims, slices and device
// classes, as built by scheduler.New and addAllEventHandlers.
func deviceOptions(ctx context.Context, factory informers.SharedInformerFactory) ([]frameworkruntime.Option, error) {
	if !feature.DefaultFeatureGate.Enabled(features.DynamicResourceAllocation) {
		return nil, nil
	}
	group := factory.Resource().V1()
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), group.ResourceClaims().Informer(), "ResourceClaim", "", nil)
	options := tracker.Options{
		EnableConsumableCapacity: feature.DefaultFeatureGate.Enabled(features.DRAConsumableCapacity),
		SliceInformer:            group.ResourceSlices(),
	}
	trackDeviceTaints(&options, factory)
	slices, err := tracker.StartTracker(ctx, options)
	if err != nil {
		return nil, err
	}
	manager := dynamicresources.NewDRAManager(ctx, claims, slices, factory)
	if err := cacheExtendedResources(manager, factory); err != nil {
		return nil, err
	}
	return []frameworkruntime.Option{frameworkruntime.WithSharedDRAManager(manager)}, nil
}

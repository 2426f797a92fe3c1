//go:build !before_1_35

package main

import (
	"k8s.io/client-go/informers"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
)

// cacheExtendedResources fills the cache of device classes that stand for extended resources.
func cacheExtendedResources(manager *dynamicresources.DefaultDRAManager, factory informers.SharedInformerFactory) error {
	cached, ok := manager.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache)
	if !ok || cached == nil {
		return nil
	}
	_, err := factory.Resource().V1().DeviceClasses().Informer().AddEventHandler(cached)
	return err
}

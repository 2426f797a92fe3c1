//go:build before_1_35 && !before_1_34

package main

import (
	"k8s.io/client-go/informers"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
)

func cacheExtendedResources(*dynamicresources.DefaultDRAManager, informers.SharedInformerFactory) error {
	return nil
}

//go:build before_1_36 && !before_1_35

package main

import (
	"k8s.io/client-go/informers"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// laterOptions are what the framework of the release needs besides.
func laterOptions(factory informers.SharedInformerFactory) []frameworkruntime.Option {
	return []frameworkruntime.Option{
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
	}
}

//go:build before_1_35

package main

import (
	"k8s.io/client-go/informers"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// laterOptions are what the framework of the release needs besides.
func laterOptions(informers.SharedInformerFactory) []frameworkruntime.Option {
	return nil
}

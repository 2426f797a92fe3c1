//go:build before_1_34

package main

import (
	"context"

	"k8s.io/client-go/informers"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// deviceOptions are none: DynamicResources is off by default.
func deviceOptions(context.Context, informers.SharedInformerFactory) ([]frameworkruntime.Option, error) {
	return nil, nil
}

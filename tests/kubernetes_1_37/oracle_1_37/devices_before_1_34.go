//go:build before_1_34

package main

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// DynamicResources is off by default.
var deviceKinds []runtime.Object

type claimsClient struct {
	kubernetes.Interface
}

func deviceOptions(context.Context, informers.SharedInformerFactory) ([]frameworkruntime.Option, error) {
	return nil, nil
}

//go:build before_1_37 && !before_1_34

package main

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
)

// DeviceTaintRules have no stable API yet.
var deviceTaintKinds []runtime.Object

func trackDeviceTaints(*tracker.Options, informers.SharedInformerFactory) {}

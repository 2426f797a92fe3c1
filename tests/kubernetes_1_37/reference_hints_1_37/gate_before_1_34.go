//go:build before_1_34

package main

import (
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
)

// turnHints turns hints on or off.
func turnHints(on bool) error {
	return utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{string(features.SchedulerQueueingHints): on})
}

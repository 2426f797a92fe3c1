//go:build before_1_35

package main

import frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

// nominatesGatedPods says whether the queue of the release does.
const nominatesGatedPods = false

// laterOptions are what the framework of the release needs besides.
func (s *harness) laterOptions() []frameworkruntime.Option {
	return nil
}

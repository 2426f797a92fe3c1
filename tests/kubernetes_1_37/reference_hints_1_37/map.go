//go:build !before_1_37

package main

import (
	"context"
	_ "unsafe" // for go:linkname

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	_ "k8s.io/kubernetes/pkg/scheduler" // has buildQueueingHintMap
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

//go:linkname buildQueueingHintMap k8s.io/kubernetes/pkg/scheduler.buildQueueingHintMap
func buildQueueingHintMap(ctx context.Context, es []fwk.EnqueueExtensions) (queue.QueueingHintMap, error)

// mapOf returns a profile's map of hints.
func mapOf(ctx context.Context, made framework.Framework) (queue.QueueingHintMap, error) {
	return buildQueueingHintMap(ctx, made.EnqueueExtensions())
}

// podChanges returns what an update means to pods other than the one that changed.
func podChanges(newPod, oldPod *v1.Pod) []clusterEvent {
	return framework.PodSchedulingPropertiesChange(newPod, oldPod, false)
}

//go:build before_1_37

package main

import (
	"context"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// mapOf returns a profile's map of hints, as buildQueueingHintMap of v1.32 to
// v1.36 does. Its package needs modules that the releases' files do not have.
func mapOf(ctx context.Context, made framework.Framework) (queue.QueueingHintMap, error) {
	areOn := utilfeature.DefaultFeatureGate.Enabled(features.SchedulerQueueingHints)
	hints := queue.QueueingHintMap{}
	add := func(event clusterEvent, plugin string, function hintFunction) {
		hints[event] = append(hints[event], &queue.QueueingHintFunction{PluginName: plugin, QueueingHintFn: function})
	}
	for _, plugin := range made.EnqueueExtensions() {
		events, err := plugin.EventsToRegister(ctx)
		if err != nil {
			return nil, err
		}
		var ofNodes actionType
		for _, registered := range events {
			function := registered.QueueingHintFn
			if function == nil || !areOn {
				function = alwaysQueue
			}
			if registered.Event.Resource == nodeResource {
				ofNodes |= registered.Event.ActionType
			}
			add(registered.Event, plugin.Name(), function)
		}
		// A new node with taints comes to the queue when they go.
		if ofNodes&nodeAdded != 0 && ofNodes&nodeTaintUpdated == 0 {
			add(clusterEvent{Resource: nodeResource, ActionType: nodeTaintUpdated}, plugin.Name(), alwaysQueue)
		}
	}
	return hints, nil
}

func alwaysQueue(logr.Logger, *v1.Pod, interface{}, interface{}) (queueingHint, error) {
	return queuePod, nil
}

func podChanges(newPod, oldPod *v1.Pod) []clusterEvent {
	return framework.PodSchedulingPropertiesChange(newPod, oldPod)
}

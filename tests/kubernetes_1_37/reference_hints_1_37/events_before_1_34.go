//go:build before_1_34

package main

import "k8s.io/kubernetes/pkg/scheduler/framework"

type (
	actionType    = framework.ActionType
	clusterEvent  = framework.ClusterEvent
	eventResource = framework.EventResource
	hintFunction  = framework.QueueingHintFn
	queueingHint  = framework.QueueingHint
)

const (
	nodeAdded        = framework.Add
	nodeTaintUpdated = framework.UpdateNodeTaint
	nodeResource     = framework.Node
	queuePod         = framework.Queue
)

// matches says whether an event that was registered has one that happened.
func matches(registered, happened clusterEvent) bool {
	return registered.Match(happened)
}

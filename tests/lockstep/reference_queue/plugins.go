package main

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
)

// preEnqueue is a plugin that keeps pods out: SchedulingGates as in-tree; Hold by the label "hold"; Quota while it is
// closed, for pods with the label "quota".
type preEnqueue struct {
	name string
	open *bool
}

func (p preEnqueue) Name() string { return p.name }

func (p preEnqueue) PreEnqueue(_ context.Context, pod *v1.Pod) *framework.Status {
	switch {
	case p.name == names.SchedulingGates && len(pod.Spec.SchedulingGates) > 0,
		p.name == "Hold" && pod.Labels["hold"] == "true",
		p.name == "Quota" && !*p.open && pod.Labels["quota"] != "":
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, p.name)
	case p.name == "Hold" && pod.Labels["hold"] == "error":
		return framework.NewStatus(framework.Error, "failed")
	}
	return nil
}

// hintFunction returns the hint function of a rule.
func hintFunction(rule string) framework.QueueingHintFn {
	return func(_ klog.Logger, pod *v1.Pod, oldObj, newObj interface{}) (framework.QueueingHint, error) {
		switch rule {
		case "queue":
			return framework.Queue, nil
		case "skip":
			return framework.QueueSkip, nil
		case "error":
			return framework.QueueSkip, errors.New("failed")
		case "gates":
			if modified, ok := newObj.(*v1.Pod); ok && modified.UID == pod.UID && len(modified.Spec.SchedulingGates) == 0 {
				return framework.Queue, nil
			}
			return framework.QueueSkip, nil
		case "same": // the object has the pod's label "app"
			if object := involved(oldObj, newObj); object != nil && object.GetLabels()["app"] == pod.Labels["app"] {
				return framework.Queue, nil
			}
			return framework.QueueSkip, nil
		case "changed": // the object's label "app" is another than before
			before, _ := oldObj.(metav1.Object)
			after, _ := newObj.(metav1.Object)
			if before == nil || after == nil {
				return framework.Queue, errors.New("no update")
			}
			if before.GetLabels()["app"] != after.GetLabels()["app"] {
				return framework.Queue, nil
			}
			return framework.QueueSkip, nil
		}
		panic("unknown rule " + rule)
	}
}

func involved(oldObj, newObj interface{}) metav1.Object {
	if object, ok := newObj.(metav1.Object); ok {
		return object
	}
	object, _ := oldObj.(metav1.Object)
	return object
}

// lessFunction returns the order of the queue: PrioritySort's, or that of the label "rank".
func lessFunction(sort string) framework.LessFunc {
	if sort == "rank" {
		return func(first, second *framework.QueuedPodInfo) bool {
			return first.Pod.Labels["rank"] < second.Pod.Labels["rank"]
		}
	}
	return (&queuesort.PrioritySort{}).Less
}

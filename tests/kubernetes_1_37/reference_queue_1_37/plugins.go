package main

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
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

func (p preEnqueue) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	switch {
	case p.name == names.SchedulingGates && len(pod.Spec.SchedulingGates) > 0,
		p.name == "Hold" && pod.Labels["hold"] == "true",
		p.name == "Quota" && !*p.open && pod.Labels["quota"] != "":
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, p.name)
	case p.name == "Hold" && pod.Labels["hold"] == "error":
		return fwk.NewStatus(fwk.Error, "failed")
	}
	return nil
}

// hintFunction returns the hint function of a rule.
func hintFunction(rule string) fwk.QueueingHintFn {
	return func(_ klog.Logger, pod *v1.Pod, oldObj, newObj interface{}) (fwk.QueueingHint, error) {
		switch rule {
		case "queue":
			return fwk.Queue, nil
		case "skip":
			return fwk.QueueSkip, nil
		case "error":
			return fwk.QueueSkip, errors.New("failed")
		case "gates":
			if modified, ok := newObj.(*v1.Pod); ok && modified.UID == pod.UID && len(modified.Spec.SchedulingGates) == 0 {
				return fwk.Queue, nil
			}
			return fwk.QueueSkip, nil
		case "same": // the object has the pod's label "app"
			if object := involved(oldObj, newObj); object != nil && object.GetLabels()["app"] == pod.Labels["app"] {
				return fwk.Queue, nil
			}
			return fwk.QueueSkip, nil
		case "changed": // the object's label "app" is another than before
			before, _ := oldObj.(metav1.Object)
			after, _ := newObj.(metav1.Object)
			if before == nil || after == nil {
				return fwk.Queue, errors.New("no update")
			}
			if before.GetLabels()["app"] != after.GetLabels()["app"] {
				return fwk.Queue, nil
			}
			return fwk.QueueSkip, nil
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
func lessFunction(sort string) fwk.LessFunc {
	if sort == "rank" {
		return func(first, second fwk.QueuedEntityInfo) bool { return rank(first) < rank(second) }
	}
	return (&queuesort.PrioritySort{}).Less
}

func rank(entity fwk.QueuedEntityInfo) string {
	return entity.(*framework.QueuedPodInfo).Pod.Labels["rank"]
}

package main

import (
	"context"
	"fmt"
	"time"
	"unsafe" // also for go:linkname

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	clocktesting "k8s.io/utils/clock/testing"
)

//go:linkname flushBackoffQCompleted k8s.io/kubernetes/pkg/scheduler/backend/queue.(*PriorityQueue).flushBackoffQCompleted
func flushBackoffQCompleted(*queue.PriorityQueue, klog.Logger)

//go:linkname flushUnschedulableEntitiesLeftover k8s.io/kubernetes/pkg/scheduler/backend/queue.(*PriorityQueue).flushUnschedulableEntitiesLeftover
func flushUnschedulableEntitiesLeftover(*queue.PriorityQueue, klog.Logger)

// getBackoffTime takes the queue's own backoffQ, whose type is private.
//
//go:linkname getBackoffTime k8s.io/kubernetes/pkg/scheduler/backend/queue.(*backoffQueue).getBackoffTime
func getBackoffTime(backoffQ unsafe.Pointer, entity framework.QueuedEntityInfo) time.Time

var (
	logger = klog.Logger{}
	start  = time.Unix(1_000_000, 0)
	// The recorder is shared: one of its own would cost every script a goroutine that outlives it.
	recorder = metrics.NewMetricsAsyncRecorder(1000, time.Hour, make(chan struct{}))
)

// world is a queue, and what surrounds it in a scheduler.
type world struct {
	script *script
	clock  *clocktesting.FakeClock
	queue  *queue.PriorityQueue
	inside inside
	// objects are those of the script; pods and the labels of namespaces are what the informers show.
	objects    []metav1.Object
	pods       cache.Indexer
	namespaces cache.Indexer
	open       bool                       // what the plugin Quota says
	flight     []*framework.QueuedPodInfo // popped and not returned yet
}

func (s *script) run() ([]state, error) {
	w, err := newWorld(s)
	if err != nil {
		return nil, err
	}
	states := []state{w.state(answer{})}
	for i := range s.Steps {
		found, err := w.apply(&s.Steps[i])
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
		states = append(states, w.state(found))
	}
	return states, nil
}

func newWorld(s *script) (*world, error) {
	objects, err := decodeObjects(s.Objects)
	if err != nil {
		return nil, err
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(
		map[string]bool{string(features.SchedulerPopFromBackoffQ): s.EarlyPop}); err != nil {
		return nil, err
	}
	resetMetrics(s)
	w := &world{script: s, clock: clocktesting.NewFakeClock(start), objects: objects}
	preEnqueuePlugins := map[string]map[string]fwk.PreEnqueuePlugin{}
	hints := queue.QueueingHintMapPerProfile{}
	for name, config := range s.Profiles {
		preEnqueuePlugins[name] = map[string]fwk.PreEnqueuePlugin{}
		for _, plugin := range config.PreEnqueue {
			preEnqueuePlugins[name][plugin] = preEnqueue{plugin, &w.open}
		}
		hints[name] = queue.QueueingHintMap{}
		for _, hint := range config.Hints {
			registered := hint.Event.clusterEvent()
			hints[name][registered] = append(hints[name][registered], &queue.QueueingHintFunction{
				PluginName: hint.Plugin, QueueingHintFn: hintFunction(hint.Rule),
			})
		}
	}
	factory := informers.NewSharedInformerFactory(nil, 0) // never started: steps write to its stores
	w.pods = factory.Core().V1().Pods().Informer().GetIndexer()
	w.namespaces = factory.Core().V1().Namespaces().Informer().GetIndexer()
	w.queue = queue.NewPriorityQueue(
		lessFunction(s.Sort),
		factory,
		queue.WithClock(w.clock),
		queue.WithPodInitialBackoffDuration(time.Duration(s.Backoff[0])*time.Second),
		queue.WithPodMaxBackoffDuration(time.Duration(s.Backoff[1])*time.Second),
		queue.WithPodMaxInUnschedulablePodsDuration(time.Duration(s.Leftover)*time.Second),
		queue.WithPodLister(factory.Core().V1().Pods().Lister()),
		queue.WithPreEnqueuePluginMap(preEnqueuePlugins),
		queue.WithQueueingHintMapPerProfile(hints),
		queue.WithMetricsRecorder(recorder),
	)
	w.inside = insideOf(w.queue)
	return w, nil
}

// answer is what a step returned.
type answer struct {
	Popped *podInfo `json:"popped,omitempty"`
	Failed bool     `json:"failed,omitempty"`
}

func (w *world) pod(index *int) *v1.Pod {
	if index == nil {
		return nil
	}
	return w.objects[*index].(*v1.Pod).DeepCopy()
}

// object returns an untyped nil for none, as event handlers pass it.
func (w *world) object(index *int) interface{} {
	if index == nil {
		return nil
	}
	return w.objects[*index]
}

func (w *world) apply(s *step) (found answer, err error) {
	q, ctx := w.queue, klog.NewContext(context.Background(), logger)
	switch s.Op {
	case "add":
		q.Add(ctx, w.pod(s.Pod))
	case "update":
		q.Update(ctx, w.pod(s.Old), w.pod(s.New))
	case "delete":
		q.Delete(logger, w.pod(s.Pod))
	case "pop":
		if w.mayPop() { // or Pop would block
			var entity framework.QueuedEntityInfo
			entity, err = q.Pop(logger)
			if err == nil {
				info := entity.(*framework.QueuedPodInfo)
				w.flight = append(w.flight, info)
				found.Popped = w.attempted(info)
			}
		}
	case "done":
		if info := w.land(s.Flight); info != nil {
			q.Done(info.Pod.UID)
		}
	case "failed":
		found.Failed = w.failed(s)
	case "move":
		q.MoveAllToActiveOrBackoffQueue(logger, s.Event.clusterEvent(), w.object(s.Old), w.object(s.New), preCheck(s))
	case "activate":
		pods := map[string]*v1.Pod{}
		for _, index := range s.Pods {
			pod := w.pod(&index)
			pods[pod.Namespace+"/"+pod.Name] = pod
		}
		q.Activate(logger, pods)
	case "nominate":
		info, _ := framework.NewPodInfo(w.pod(s.Pod))
		q.AddNominatedPod(logger, info, nominatingInfo(s))
	case "unnominate":
		q.DeleteNominatedPodIfExists(w.pod(s.Pod))
	case "clock":
		w.clock.Step(time.Duration(s.Ticks * tickNanoseconds))
	case "flush_backoff":
		flushBackoffQCompleted(q, logger)
	case "flush_leftover":
		flushUnschedulableEntitiesLeftover(q, logger)
	case "watched":
		err = w.pods.Add(w.pod(s.Pod))
	case "gone":
		err = w.pods.Delete(w.pod(s.Pod))
	case "namespace":
		err = w.namespaces.Add(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace, Labels: s.Labels}})
	case "quota":
		w.open = s.Open
	default:
		err = fmt.Errorf("unknown op %q", s.Op)
	}
	return found, err
}

// mayPop returns whether some pod that Pop would look at is not in flight already: Pop drops those, and would then wait.
func (w *world) mayPop() bool {
	entities := w.inside.active.List()
	if w.script.EarlyPop {
		entities = append(entities, w.inside.backoff.List()...)
	}
	for _, entity := range entities {
		if _, inFlight := w.inside.inFlightPods[entity.(*framework.QueuedPodInfo).Pod.UID]; !inFlight {
			return true
		}
	}
	return false
}

func preCheck(s *step) queue.PreEnqueueCheck {
	if s.PreCheck == "" {
		return nil
	}
	return func(pod *v1.Pod) bool { return pod.Labels["pre"] == s.PreCheck }
}

func nominatingInfo(s *step) *fwk.NominatingInfo {
	switch s.Mode {
	case "override":
		return &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: s.Node}
	case "noop":
		return &fwk.NominatingInfo{NominatingMode: fwk.ModeNoop}
	}
	return nil
}

// land returns one of the pods in flight, which then no longer is.
func (w *world) land(index int) *framework.QueuedPodInfo {
	if len(w.flight) == 0 {
		return nil
	}
	index %= len(w.flight)
	info := w.flight[index]
	w.flight = append(w.flight[:index:index], w.flight[index+1:]...)
	return info
}

// failed does what the scheduler does with a pod that it could not schedule (handleSchedulingFailure).
func (w *world) failed(s *step) bool {
	info := w.land(s.Flight)
	if info == nil {
		return false
	}
	info.ClearRejectorPlugins()
	info.UnschedulablePlugins = sets.New(s.Unschedulable...)
	info.PendingPlugins = sets.New(s.Pending...)
	// The informer may show a newer pod, or that it is gone, or on a node.
	shown, exists, _ := w.pods.Get(info.Pod)
	if !exists || shown.(*v1.Pod).UID != info.Pod.UID || shown.(*v1.Pod).Spec.NodeName != "" {
		w.queue.Done(info.Pod.UID)
		return false
	}
	info.PodInfo, _ = framework.NewPodInfo(shown.(*v1.Pod).DeepCopy())
	return w.queue.AddUnschedulablePodIfNotPresent(logger, info, w.queue.SchedulingCycle()) != nil
}

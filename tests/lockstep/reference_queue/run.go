package main

import (
	"fmt"
	"time"
	_ "unsafe" // for go:linkname

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/internal/queue"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	clocktesting "k8s.io/utils/clock/testing"
)

//go:linkname flushBackoffQCompleted k8s.io/kubernetes/pkg/scheduler/internal/queue.(*PriorityQueue).flushBackoffQCompleted
func flushBackoffQCompleted(*queue.PriorityQueue, klog.Logger)

//go:linkname flushUnschedulablePodsLeftover k8s.io/kubernetes/pkg/scheduler/internal/queue.(*PriorityQueue).flushUnschedulablePodsLeftover
func flushUnschedulablePodsLeftover(*queue.PriorityQueue, klog.Logger)

//go:linkname deleteUnschedulable k8s.io/kubernetes/pkg/scheduler/internal/queue.(*UnschedulablePods).delete
func deleteUnschedulable(pods *queue.UnschedulablePods, pod *v1.Pod, gated bool)

var (
	logger = klog.Logger{}
	start  = time.Unix(1_000_000, 0)
	// The recorder is shared: one of its own would cost every script a goroutine that outlives it.
	recorder = metrics.NewMetricsAsyncRecorder(1000, time.Hour, make(chan struct{}))
)

// world is a queue, and what surrounds it in a scheduler.
type world struct {
	script     *script
	clock      *clocktesting.FakeClock
	queue      *queue.PriorityQueue
	inside     inside
	objects    []metav1.Object
	pods       cache.Indexer // what the informer shows
	namespaces cache.Indexer
	open       bool                       // what the plugin Quota says
	flight     []*framework.QueuedPodInfo // popped and not returned yet
	// Counts of queue_incoming_pods_total that no step would have made if pods were only ever in one queue.
	tooMany map[string]int
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
		map[string]bool{string(features.SchedulerQueueingHints): s.Hints}); err != nil {
		return nil, err
	}
	resetMetrics(s)
	w := &world{script: s, clock: clocktesting.NewFakeClock(start), objects: objects, tooMany: map[string]int{}}
	preEnqueuePlugins := map[string][]framework.PreEnqueuePlugin{}
	hints := queue.QueueingHintMapPerProfile{}
	for name, config := range s.Profiles {
		for _, plugin := range config.PreEnqueue {
			preEnqueuePlugins[name] = append(preEnqueuePlugins[name], preEnqueue{plugin, &w.open})
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
		queue.WithMetricsRecorder(*recorder),
	)
	w.inside = insideOf(w.queue)
	return w, nil
}

// answer is what a step returned.
type answer struct {
	Popped *podInfo `json:"popped,omitempty"`
	Failed bool     `json:"failed,omitempty"`
	// InTwo marks a pod that was left in two queues, and is now only in backoffQ.
	InTwo bool `json:"inTwo,omitempty"`
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
	q := w.queue
	switch s.Op {
	case "add":
		err = q.Add(logger, w.pod(s.Pod))
	case "update":
		err = q.Update(logger, w.pod(s.Old), w.pod(s.New))
		found.InTwo = s.MayBeInTwo && w.takeFromTwo(w.pod(s.New))
	case "delete":
		err = q.Delete(w.pod(s.Pod))
	case "pop":
		if w.inside.active.Len() > 0 { // or Pop would block
			var info *framework.QueuedPodInfo
			info, err = q.Pop(logger)
			if err == nil {
				w.flight = append(w.flight, info)
				found.Popped = w.podInfo(info)
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
	case "assigned_pod_added":
		q.AssignedPodAdded(logger, w.pod(s.Pod))
	case "assigned_pod_updated":
		q.AssignedPodUpdated(logger, w.pod(s.Old), w.pod(s.New), s.Event.clusterEvent())
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
		flushUnschedulablePodsLeftover(q, logger)
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

func preCheck(s *step) queue.PreEnqueueCheck {
	if s.PreCheck == "" {
		return nil
	}
	return func(pod *v1.Pod) bool { return pod.Labels["pre"] == s.PreCheck }
}

func nominatingInfo(s *step) *framework.NominatingInfo {
	switch s.Mode {
	case "override":
		return &framework.NominatingInfo{NominatingMode: framework.ModeOverride, NominatedNodeName: s.Node}
	case "noop":
		return &framework.NominatingInfo{NominatingMode: framework.ModeNoop}
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
	info.UnschedulablePlugins = sets.New(s.Unschedulable...)
	info.PendingPlugins = sets.New(s.Pending...)
	// The informer may show a newer pod.
	if shown, exists, _ := w.pods.Get(info.Pod); exists {
		info.PodInfo, _ = framework.NewPodInfo(shown.(*v1.Pod).DeepCopy())
	}
	return w.queue.AddUnschedulableIfNotPresent(logger, info, w.queue.SchedulingCycle()-s.CyclesAgo) != nil
}

// takeFromTwo leaves a pod that is in backoffQ and unschedulable only in backoffQ, and returns whether there was one.
func (w *world) takeFromTwo(pod *v1.Pod) bool {
	key := pod.Namespace + "/" + pod.Name
	info, exists := w.inside.unschedulable()[pod.Name+"_"+pod.Namespace]
	if !exists {
		return false
	}
	if _, exists, _ := w.inside.backoff.GetByKey(key); !exists {
		return false
	}
	deleteUnschedulable(w.inside.unschedulablePods, pod, info.Gated)
	w.tooMany["unschedulable/"+framework.UnscheduledPodUpdate.Label]++
	return true
}

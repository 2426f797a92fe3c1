package main

import (
	"container/list"
	"reflect"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	k8smetrics "k8s.io/component-base/metrics"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/heap"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// state is all that a queue holds. Times are nanoseconds since the script began, and null for none.
type state struct {
	answer
	Active          []*podInfo          `json:"active"`
	Backoff         []*podInfo          `json:"backoff"`
	ErrorBackoff    []*podInfo          `json:"errorBackoff"`
	Unschedulable   []*podInfo          `json:"unschedulable"`
	Flight          []*podInfo          `json:"flight"`
	Cycle           int64               `json:"cycle"`
	InFlight        []string            `json:"inFlight"`
	InFlightPods    []string            `json:"inFlightPods"`
	Nominated       map[string][]string `json:"nominated"`
	NominatedNodes  map[string]string   `json:"nominatedNodes"`
	Incoming        map[string]int      `json:"incoming"`
	PendingPods     map[string]int      `json:"pendingPods"`
	UnschedulableBy map[string]int      `json:"unschedulableBy"`
	Summary         string              `json:"summary"`
}

type podInfo struct {
	Key           string   `json:"key"`
	UID           string   `json:"uid"`
	Version       string   `json:"version"`
	Attempts      int      `json:"attempts"`
	Rejections    int      `json:"rejections"`
	Errors        int      `json:"errors"`
	Timestamp     int64    `json:"timestamp"`
	BackoffEnd    *int64   `json:"backoffEnd"`
	FirstAttempt  *int64   `json:"firstAttempt"`
	Flushed       bool     `json:"flushed"`
	FlushedAt     *int64   `json:"flushedAt"`
	GatingPlugin  string   `json:"gatingPlugin"`
	Unschedulable []string `json:"unschedulable"`
	Pending       []string `json:"pending"`
}

// inside is the private part of a queue.
type inside struct {
	active, backoff, errorBackoff *heap.Heap[framework.QueuedEntityInfo]
	backoffQ                      unsafe.Pointer
	unschedulable                 map[string]framework.QueuedEntityInfo
	inFlightPods                  map[types.UID]*list.Element
	inFlightEvents                *list.List
	nominatedPods                 reflect.Value
	nominatedNodes                map[types.UID]string
}

func insideOf(q *queue.PriorityQueue) inside {
	value := reflect.ValueOf(q).Elem()
	activeQ := field(value, "activeQ").Elem().Elem()
	backoffQ := field(value, "backoffQ").Elem().Elem()
	nominator := field(value, "nominator").Elem()
	entities := field(value, "unschedulableEntities").Elem()
	type entityHeap = *heap.Heap[framework.QueuedEntityInfo]
	return inside{
		active:         field(activeQ, "queue").Interface().(entityHeap),
		backoff:        field(backoffQ, "entityBackoffQ").Interface().(entityHeap),
		errorBackoff:   field(backoffQ, "entityErrorBackoffQ").Interface().(entityHeap),
		backoffQ:       backoffQ.Addr().UnsafePointer(),
		unschedulable:  field(entities, "entityInfoMap").Interface().(map[string]framework.QueuedEntityInfo),
		inFlightPods:   field(activeQ, "inFlightPods").Interface().(map[types.UID]*list.Element),
		inFlightEvents: field(activeQ, "inFlightEvents").Interface().(*list.List),
		nominatedPods:  field(nominator, "nominatedPods"),
		nominatedNodes: field(nominator, "nominatedPodToNode").Interface().(map[types.UID]string),
	}
}

// field returns a field of an addressable struct, private or not.
func field(value reflect.Value, name string) reflect.Value {
	found := value.FieldByName(name)
	return reflect.NewAt(found.Type(), unsafe.Pointer(found.UnsafeAddr())).Elem()
}

func (w *world) podInfo(info *framework.QueuedPodInfo) *podInfo {
	result := &podInfo{
		Key:           key(info.Pod),
		UID:           string(info.Pod.UID),
		Version:       info.Pod.ResourceVersion,
		Attempts:      info.Attempts,
		Rejections:    info.UnschedulableCount,
		Errors:        info.ConsecutiveErrorsCount,
		Timestamp:     info.Timestamp.Sub(start).Nanoseconds(),
		BackoffEnd:    sinceStart(getBackoffTime(w.inside.backoffQ, info)),
		Flushed:       info.WasFlushedFromUnschedulable,
		FlushedAt:     sinceStart(info.FlushTimestamp),
		GatingPlugin:  info.GatingPlugin,
		Unschedulable: sets.List(info.UnschedulablePlugins),
		Pending:       sets.List(info.PendingPlugins),
	}
	if info.InitialAttemptTimestamp != nil {
		result.FirstAttempt = sinceStart(*info.InitialAttemptTimestamp)
	}
	return result
}

// attempted describes a pod in flight. Its plugins and its backoff are those of the attempt before, which nothing asks.
func (w *world) attempted(info *framework.QueuedPodInfo) *podInfo {
	result := w.podInfo(info)
	result.Unschedulable, result.Pending = []string{}, []string{}
	return result
}

func sinceStart(moment time.Time) *int64 {
	if moment.IsZero() {
		return nil
	}
	nanoseconds := moment.Sub(start).Nanoseconds()
	return &nanoseconds
}

func key(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }

// podInfos describes pods in the order of their keys.
func (w *world) podInfos(entities []framework.QueuedEntityInfo) []*podInfo {
	result := []*podInfo{}
	for _, entity := range entities {
		result = append(result, w.podInfo(entity.(*framework.QueuedPodInfo)))
	}
	slices.SortFunc(result, func(a, b *podInfo) int { return strings.Compare(a.Key, b.Key) })
	return result
}

func (w *world) state(found answer) state {
	var unschedulable []framework.QueuedEntityInfo
	for _, entity := range w.inside.unschedulable {
		unschedulable = append(unschedulable, entity)
	}
	_, summary := w.queue.PendingPods()
	result := state{
		answer:          found,
		Active:          w.podInfos(w.inside.active.List()),
		Backoff:         w.podInfos(w.inside.backoff.List()),
		ErrorBackoff:    w.podInfos(w.inside.errorBackoff.List()),
		Unschedulable:   w.podInfos(unschedulable),
		Flight:          []*podInfo{},
		Cycle:           w.queue.SchedulingCycle(),
		InFlight:        []string{},
		InFlightPods:    []string{},
		Nominated:       map[string][]string{},
		NominatedNodes:  map[string]string{},
		Incoming:        incoming(),
		PendingPods:     pendingPods(),
		UnschedulableBy: w.unschedulableBy(),
		Summary:         summary,
	}
	for _, info := range w.flight {
		result.Flight = append(result.Flight, w.attempted(info))
	}
	for element := w.inside.inFlightEvents.Front(); element != nil; element = element.Next() {
		result.InFlight = append(result.InFlight, inFlightEntry(element.Value))
	}
	for uid := range w.inside.inFlightPods {
		result.InFlightPods = append(result.InFlightPods, string(uid))
	}
	slices.Sort(result.InFlightPods)
	for uid, node := range w.inside.nominatedNodes {
		result.NominatedNodes[string(uid)] = node
	}
	for _, node := range w.inside.nominatedPods.MapKeys() {
		for _, info := range w.queue.NominatedPodsForNode(node.String()) {
			pod := info.GetPod()
			text := key(pod) + " " + string(pod.UID) + " " + pod.ResourceVersion
			result.Nominated[node.String()] = append(result.Nominated[node.String()], text)
		}
	}
	return result
}

// inFlightEntry is the UID of a pod, or the label of an event and the names and versions of its objects.
func inFlightEntry(value any) string {
	if pod, ok := value.(*v1.Pod); ok {
		return string(pod.UID)
	}
	entry := reflect.ValueOf(value).Elem()
	event := field(entry, "event").Interface().(fwk.ClusterEvent)
	return event.Label() + " " + objectText(field(entry, "oldObj")) + " " + objectText(field(entry, "newObj"))
}

func objectText(value reflect.Value) string {
	object, ok := value.Interface().(interface {
		GetName() string
		GetResourceVersion() string
	})
	if !ok || reflect.ValueOf(object).IsNil() {
		return "-"
	}
	return object.GetName() + "@" + object.GetResourceVersion()
}

func resetMetrics(s *script) {
	metrics.SchedulerQueueIncomingPods.Reset()
	for _, gauge := range pendingGauges() {
		gauge.Set(0)
	}
	for profile := range s.Profiles {
		for _, plugin := range s.Plugins {
			metrics.UnschedulableReason(plugin, profile).Set(0)
		}
	}
}

func pendingGauges() map[string]k8smetrics.GaugeMetric {
	return map[string]k8smetrics.GaugeMetric{
		"active": metrics.ActivePods(), "backoff": metrics.BackoffPods(),
		"unschedulable": metrics.UnschedulablePods(), "gated": metrics.GatedPods(),
	}
}

func pendingPods() map[string]int {
	result := map[string]int{}
	for queue, gauge := range pendingGauges() {
		result[queue] = gaugeValue(gauge)
	}
	return result
}

func gaugeValue(gauge k8smetrics.GaugeMetric) int {
	var written dto.Metric
	if err := gauge.(prometheus.Metric).Write(&written); err != nil {
		panic(err)
	}
	return int(written.GetGauge().GetValue())
}

func (w *world) unschedulableBy() map[string]int {
	result := map[string]int{}
	for profile := range w.script.Profiles {
		for _, plugin := range w.script.Plugins {
			if count := gaugeValue(metrics.UnschedulableReason(plugin, profile)); count != 0 {
				result[plugin+"/"+profile] = count
			}
		}
	}
	return result
}

func incoming() map[string]int {
	collected := make(chan prometheus.Metric, 1000)
	metrics.SchedulerQueueIncomingPods.CounterVec.Collect(collected)
	close(collected)
	result := map[string]int{}
	for metric := range collected {
		var written dto.Metric
		if err := metric.Write(&written); err != nil {
			panic(err)
		}
		labels := map[string]string{}
		for _, pair := range written.GetLabel() {
			labels[pair.GetName()] = pair.GetValue()
		}
		result[labels["queue"]+"/"+labels["event"]] = int(written.GetCounter().GetValue())
	}
	return result
}

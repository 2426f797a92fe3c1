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
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/internal/heap"
	"k8s.io/kubernetes/pkg/scheduler/internal/queue"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// state is all that a queue holds. Times are nanoseconds since the script began.
type state struct {
	answer
	Active          []*podInfo          `json:"active"`
	Backoff         []*podInfo          `json:"backoff"`
	Unschedulable   []*podInfo          `json:"unschedulable"`
	Flight          []*podInfo          `json:"flight"`
	Cycle           int64               `json:"cycle"`
	MoveCycle       int64               `json:"moveCycle"`
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
	Timestamp     int64    `json:"timestamp"`
	BackoffEnd    int64    `json:"backoffEnd"`
	FirstAttempt  *int64   `json:"firstAttempt"`
	Gated         bool     `json:"gated"`
	Unschedulable []string `json:"unschedulable"`
	Pending       []string `json:"pending"`
}

// inside is the private part of a queue.
type inside struct {
	value             reflect.Value
	active, backoff   *heap.Heap
	unschedulablePods *queue.UnschedulablePods
	inFlightPods      map[types.UID]*list.Element
	inFlightEvents    *list.List
}

func insideOf(q *queue.PriorityQueue) inside {
	value := reflect.ValueOf(q).Elem()
	return inside{
		value:             value,
		active:            field(value, "activeQ").Interface().(*heap.Heap),
		backoff:           field(value, "podBackoffQ").Interface().(*heap.Heap),
		unschedulablePods: field(value, "unschedulablePods").Interface().(*queue.UnschedulablePods),
		inFlightPods:      field(value, "inFlightPods").Interface().(map[types.UID]*list.Element),
		inFlightEvents:    field(value, "inFlightEvents").Interface().(*list.List),
	}
}

func (in *inside) unschedulable() map[string]*framework.QueuedPodInfo {
	return field(reflect.ValueOf(in.unschedulablePods).Elem(), "podInfoMap").Interface().(map[string]*framework.QueuedPodInfo)
}

// field returns a field of an addressable struct, private or not.
func field(value reflect.Value, name string) reflect.Value {
	found := value.FieldByName(name)
	return reflect.NewAt(found.Type(), unsafe.Pointer(found.UnsafeAddr())).Elem()
}

//go:linkname getBackoffTime k8s.io/kubernetes/pkg/scheduler/internal/queue.(*PriorityQueue).getBackoffTime
func getBackoffTime(*queue.PriorityQueue, *framework.QueuedPodInfo) time.Time

func (w *world) podInfo(info *framework.QueuedPodInfo) *podInfo {
	result := &podInfo{
		Key:           key(info.Pod),
		UID:           string(info.Pod.UID),
		Version:       info.Pod.ResourceVersion,
		Attempts:      info.Attempts,
		Timestamp:     info.Timestamp.Sub(start).Nanoseconds(),
		BackoffEnd:    getBackoffTime(w.queue, info).Sub(start).Nanoseconds(),
		Gated:         info.Gated,
		Unschedulable: sets.List(info.UnschedulablePlugins),
		Pending:       sets.List(info.PendingPlugins),
	}
	if info.InitialAttemptTimestamp != nil {
		first := info.InitialAttemptTimestamp.Sub(start).Nanoseconds()
		result.FirstAttempt = &first
	}
	return result
}

func key(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }

func (w *world) podInfos(infos []*framework.QueuedPodInfo) []*podInfo {
	result := []*podInfo{}
	for _, info := range infos {
		result = append(result, w.podInfo(info))
	}
	return result
}

func inHeap(h *heap.Heap) []*framework.QueuedPodInfo {
	var result []*framework.QueuedPodInfo
	for _, object := range h.List() {
		result = append(result, object.(*framework.QueuedPodInfo))
	}
	return byKey(result)
}

func byKey(infos []*framework.QueuedPodInfo) []*framework.QueuedPodInfo {
	slices.SortFunc(infos, func(a, b *framework.QueuedPodInfo) int { return strings.Compare(key(a.Pod), key(b.Pod)) })
	return infos
}

func (w *world) state(found answer) state {
	var unschedulable []*framework.QueuedPodInfo
	for _, info := range w.inside.unschedulable() {
		unschedulable = append(unschedulable, info)
	}
	_, summary := w.queue.PendingPods()
	result := state{
		answer:          found,
		Active:          w.podInfos(inHeap(w.inside.active)),
		Backoff:         w.podInfos(inHeap(w.inside.backoff)),
		Unschedulable:   w.podInfos(byKey(unschedulable)),
		Flight:          w.podInfos(w.flight),
		Cycle:           w.queue.SchedulingCycle(),
		MoveCycle:       field(w.inside.value, "moveRequestCycle").Int(),
		InFlight:        []string{},
		InFlightPods:    []string{},
		Nominated:       map[string][]string{},
		NominatedNodes:  map[string]string{},
		Incoming:        w.incoming(),
		PendingPods:     pendingPods(),
		UnschedulableBy: w.unschedulableBy(),
		Summary:         summary,
	}
	for element := w.inside.inFlightEvents.Front(); element != nil; element = element.Next() {
		result.InFlight = append(result.InFlight, inFlightEntry(element.Value))
	}
	for uid := range w.inside.inFlightPods {
		result.InFlightPods = append(result.InFlightPods, string(uid))
	}
	slices.Sort(result.InFlightPods)
	nominator := field(w.inside.value, "nominator").Elem()
	for uid, node := range field(nominator, "nominatedPodToNode").Interface().(map[types.UID]string) {
		result.NominatedNodes[string(uid)] = node
	}
	for node := range field(nominator, "nominatedPods").Interface().(map[string][]queue.PodRef) {
		for _, info := range w.queue.NominatedPodsForNode(node) {
			text := key(info.Pod) + " " + string(info.Pod.UID) + " " + info.Pod.ResourceVersion
			result.Nominated[node] = append(result.Nominated[node], text)
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
	event := field(entry, "event").Interface().(framework.ClusterEvent)
	return event.Label + " " + objectText(field(entry, "oldObj")) + " " + objectText(field(entry, "newObj"))
}

func objectText(value reflect.Value) string {
	object, ok := value.Interface().(interface {
		GetName() string
		GetResourceVersion() string
	})
	if !ok {
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

func (w *world) incoming() map[string]int {
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
		name := labels["queue"] + "/" + labels["event"]
		if count := int(written.GetCounter().GetValue()) - w.tooMany[name]; count != 0 {
			result[name] = count
		}
	}
	return result
}

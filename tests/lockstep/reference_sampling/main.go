// Command reference_sampling schedules pods with kube-scheduler v1.31.1, with
// parallelism 1. It reads scripts, one JSON object a line, and prints for each
// a JSON line with what it found for each pod.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"reflect"
	"slices"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// script is a configuration, and what happens: nodes come, change and go, pods
// are scheduled, one after another.
type script struct {
	Name   string          `json:"name"`
	Config json.RawMessage `json:"config"`
	Steps  []step          `json:"steps"`
}

// step has one of its fields.
type step struct {
	Node   *v1.Node `json:"node,omitempty"`
	Remove string   `json:"remove,omitempty"`
	Pod    *v1.Pod  `json:"pod,omitempty"`
}

// answer is about one pod. Candidates are the nodes that were scored. Next is
// where the search for the next pod begins.
type answer struct {
	Host       string   `json:"host,omitempty"`
	Error      string   `json:"error,omitempty"`
	Evaluated  int      `json:"evaluated"`
	Feasible   int      `json:"feasible"`
	Candidates []string `json:"candidates,omitempty"`
	Next       int64    `json:"next"`
}

// observer notes the nodes that are scored, and fails in Filter on nodes that
// the label "fails" says so of.
type observer struct{ candidates []string }

func (o *observer) Name() string { return "Observer" }

func (o *observer) Filter(_ context.Context, _ *framework.CycleState, _ *v1.Pod, node *framework.NodeInfo) *framework.Status {
	if _, fails := node.Node().Labels["fails"]; fails {
		return framework.AsStatus(fmt.Errorf("it fails on %s", node.Node().Name))
	}
	return nil
}

func (o *observer) PreScore(_ context.Context, _ *framework.CycleState, _ *v1.Pod, nodes []*framework.NodeInfo) *framework.Status {
	for _, node := range nodes {
		o.candidates = append(o.candidates, node.Node().Name)
	}
	return nil
}

func main() {
	klog.SetLogger(logr.Discard())
	decoder := json.NewDecoder(bufio.NewReaderSize(os.Stdin, 1<<20))
	decoder.DisallowUnknownFields()
	output := bufio.NewWriterSize(os.Stdout, 1<<20)
	defer output.Flush()
	encoder := json.NewEncoder(output)
	for decoder.More() {
		var s script
		if err := decoder.Decode(&s); err != nil {
			log.Fatalf("reading a script: %v", err)
		}
		answers, err := s.run()
		if err != nil {
			log.Fatalf("script %s: %v", s.Name, err)
		}
		if err := encoder.Encode(answers); err != nil {
			log.Fatal(err)
		}
	}
}

func (s *script) run() ([]answer, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	observer := &observer{}
	sched, err := newScheduler(ctx, s.Config, observer)
	if err != nil {
		return nil, err
	}
	logger := klog.FromContext(ctx)
	nodes := map[string]*v1.Node{}
	answers := []answer{}
	for _, step := range s.Steps {
		switch {
		case step.Node != nil:
			if old := nodes[step.Node.Name]; old != nil {
				sched.Cache.UpdateNode(logger, old, step.Node)
			} else {
				sched.Cache.AddNode(logger, step.Node)
			}
			nodes[step.Node.Name] = step.Node
		case step.Remove != "":
			if err := sched.Cache.RemoveNode(logger, nodes[step.Remove]); err != nil {
				return nil, err
			}
			delete(nodes, step.Remove)
		case step.Pod != nil:
			observer.candidates = nil
			found := schedule(ctx, sched, step.Pod)
			slices.Sort(observer.candidates)
			found.Candidates = observer.candidates
			found.Next = reflect.ValueOf(sched).Elem().FieldByName("nextStartNodeIndex").Int()
			answers = append(answers, found)
		}
	}
	return answers, nil
}

// schedule finds a node for a pod, and lets it run there.
func schedule(ctx context.Context, sched *scheduler.Scheduler, pod *v1.Pod) answer {
	result, err := sched.SchedulePod(ctx, sched.Profiles[pod.Spec.SchedulerName], framework.NewCycleState(), pod)
	if err != nil {
		return answer{Error: err.Error()}
	}
	pod.Spec.NodeName = result.SuggestedHost
	if err := sched.Cache.AddPod(klog.FromContext(ctx), pod); err != nil {
		log.Fatal(err)
	}
	return answer{Host: result.SuggestedHost, Evaluated: result.EvaluatedNodes, Feasible: result.FeasibleNodes}
}

func newScheduler(ctx context.Context, raw []byte, observer *observer) (*scheduler.Scheduler, error) {
	obj, gvk, err := configscheme.Codecs.UniversalDecoder().Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	config := obj.(*schedulerapi.KubeSchedulerConfiguration)
	client := fake.NewClientset()
	return scheduler.New(ctx, client, informers.NewSharedInformerFactory(client, 0), nil,
		func(string) events.EventRecorder { return &events.FakeRecorder{} },
		scheduler.WithComponentConfigVersion(gvk.GroupVersion().String()),
		scheduler.WithProfiles(config.Profiles...),
		scheduler.WithPercentageOfNodesToScore(config.PercentageOfNodesToScore),
		scheduler.WithParallelism(config.Parallelism),
		scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{
			observer.Name(): func(context.Context, runtime.Object, framework.Handle) (framework.Plugin, error) {
				return observer, nil
			},
		}),
	)
}

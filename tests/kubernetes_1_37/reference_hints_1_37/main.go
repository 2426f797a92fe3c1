// Command reference_hints_1_37 runs the queueing hints of the in-tree plugins of
// kube-scheduler v1.37.2, or of a release before it, on cases read from standard input (one JSON object per line)
// and writes their answers to standard output (one JSON object per line, in the
// same order). README.md describes both.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// maxLine bounds the size of one case.
const maxLine = 64 << 20

// testCase is a profile, a pod that it rejected, and what happens then.
type testCase struct {
	Name    string            `json:"name"`
	Hints   bool              `json:"hints"` // from v1.34 on, they are always on
	Config  json.RawMessage   `json:"config"`
	Objects []json.RawMessage `json:"objects"`
	Pod     json.RawMessage   `json:"pod"`
	Events  []testEvent       `json:"events"`
}

// testEvent is what happened to an object. Action has the bits of
// the framework's ActionType.
type testEvent struct {
	Resource eventResource   `json:"resource"`
	Action   actionType      `json:"action"`
	Old      json.RawMessage `json:"old"`
	New      json.RawMessage `json:"new"`
}

// answers are those to a case: which plugins registered which events, and what
// they say of each event that happened.
type answers struct {
	Name       string              `json:"name"`
	Registered map[string][]string `json:"registered,omitempty"`
	Events     []answer            `json:"events,omitempty"`
	Error      string              `json:"error,omitempty"`
}

// answer has the hints by plugin, and what an update of a node or pod means.
type answer struct {
	Hints map[string]string `json:"hints"`
	Means []string          `json:"means,omitempty"`
}

func main() {
	klog.SetLogger(logr.Discard())
	metrics.Register()
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "reference_hints_1_37:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(make([]byte, 1<<20), maxLine)
	w := bufio.NewWriterSize(out, 1<<20)
	encoder := json.NewEncoder(w)
	for scanner.Scan() {
		if err := encoder.Encode(evaluate(scanner.Bytes())); err != nil {
			return err
		}
	}
	if err := scanner.Err(); err != nil {
		return err
	}
	return w.Flush()
}

func evaluate(line []byte) *answers {
	c := &testCase{}
	if err := json.Unmarshal(line, c); err != nil {
		return &answers{Error: fmt.Sprintf("decoding case: %v", err)}
	}
	result, err := c.answers()
	if err != nil {
		return &answers{Name: c.Name, Error: err.Error()}
	}
	return result
}

func (c *testCase) answers() (*answers, error) {
	ctx := klog.NewContext(context.Background(), logr.Discard())
	if err := turnHints(c.Hints); err != nil {
		return nil, err
	}
	hints, err := hintsOf(ctx, c.Config, c.Objects)
	if err != nil {
		return nil, err
	}
	decoded, err := decode(c.Pod)
	if err != nil {
		return nil, fmt.Errorf("pod: %w", err)
	}
	pod, ok := decoded.(*v1.Pod)
	if !ok {
		return nil, fmt.Errorf("pod: unexpected type %T", decoded)
	}
	result := &answers{Name: c.Name, Registered: map[string][]string{}}
	for event, functions := range hints {
		key := fmt.Sprintf("%s %d", event.Resource, event.ActionType)
		for _, function := range functions {
			if function.PluginName == names.DynamicResources {
				continue
			}
			result.Registered[key] = append(result.Registered[key], function.PluginName)
		}
		// The framework iterates over a map of its plugins.
		slices.Sort(result.Registered[key])
	}
	for i, event := range c.Events {
		oldObj, err := decode(event.Old)
		if err != nil {
			return nil, fmt.Errorf("events[%d].old: %w", i, err)
		}
		newObj, err := decode(event.New)
		if err != nil {
			return nil, fmt.Errorf("events[%d].new: %w", i, err)
		}
		result.Events = append(result.Events, answer{
			Hints: ask(hints, clusterEvent{Resource: event.Resource, ActionType: event.Action}, pod, oldObj, newObj),
			Means: meaning(oldObj, newObj),
		})
	}
	return result, nil
}

// ask returns what each plugin says of an event that it registered.
func ask(m queue.QueueingHintMap, happened clusterEvent, pod *v1.Pod, oldObj, newObj interface{}) map[string]string {
	said := map[string]string{}
	for event, functions := range m {
		if !matches(event, happened) {
			continue
		}
		for _, function := range functions {
			if function.PluginName == names.DynamicResources {
				continue
			}
			said[fmt.Sprintf("%s on %s %d", function.PluginName, event.Resource, event.ActionType)] =
				askOne(function.QueueingHintFn, pod, oldObj, newObj)
		}
	}
	return said
}

func askOne(fn hintFunction, pod *v1.Pod, oldObj, newObj interface{}) (said string) {
	defer func() {
		if r := recover(); r != nil {
			said = "panic"
		}
	}()
	hint, err := fn(logr.Discard(), pod, oldObj, newObj)
	if err != nil {
		return "error"
	}
	return hint.String()
}

// meaning returns the labels of the events that an update stands for.
func meaning(oldObj, newObj interface{}) []string {
	var events []clusterEvent
	switch newObj := newObj.(type) {
	case *v1.Node:
		if oldObj, ok := oldObj.(*v1.Node); ok {
			events = framework.NodeSchedulingPropertiesChange(newObj, oldObj)
		}
	case *v1.Pod:
		if oldObj, ok := oldObj.(*v1.Pod); ok {
			events = podChanges(newObj, oldObj)
		}
	}
	var labels []string
	for _, event := range events {
		labels = append(labels, fmt.Sprintf("%s %d %s", event.Resource, event.ActionType, event.Label()))
	}
	return labels
}

// decode returns an object, or a nil interface for null.
func decode(raw []byte) (interface{}, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	obj, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), raw)
	if err != nil {
		return nil, err
	}
	return obj, nil
}

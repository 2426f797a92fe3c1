package main

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// tickNanoseconds is 1/512 s, so that times are exact as nanoseconds and as floating-point seconds.
const tickNanoseconds = 1953125

// script says how to make a queue and what happens to it. Steps refer to objects by their index.
type script struct {
	Name     string            `json:"name"`
	EarlyPop bool              `json:"earlyPop"`
	Backoff  [2]int            `json:"backoff"` // seconds: initial, maximum
	Leftover int               `json:"leftover"`
	Sort     string            `json:"sort"`
	Profiles map[string]config `json:"profiles"`
	Plugins  []string          `json:"plugins"`
	Objects  []json.RawMessage `json:"objects"`
	Steps    []step            `json:"steps"`
}

// config is what one profile has.
type config struct {
	PreEnqueue []string     `json:"preEnqueue"`
	Hints      []hintConfig `json:"hints"`
}

// hintConfig registers a plugin for an event; Rule says what its hint depends on.
type hintConfig struct {
	Plugin string `json:"plugin"`
	Event  event  `json:"event"`
	Rule   string `json:"rule"`
}

type event struct {
	Resource string `json:"resource"`
	Action   int64  `json:"action"`
	Label    string `json:"label"`
}

func (e event) clusterEvent() fwk.ClusterEvent {
	return fwk.ClusterEvent{
		Resource:    fwk.EventResource(e.Resource),
		ActionType:  fwk.ActionType(e.Action),
		CustomLabel: e.Label,
	}
}

// step is one operation, with the fields that it needs.
type step struct {
	Op            string            `json:"op"`
	Pod           *int              `json:"pod"`
	Old           *int              `json:"old"`
	New           *int              `json:"new"`
	Pods          []int             `json:"pods"`
	Flight        int               `json:"flight"`
	Unschedulable []string          `json:"unschedulable"`
	Pending       []string          `json:"pending"`
	Event         event             `json:"event"`
	PreCheck      string            `json:"preCheck"`
	Mode          string            `json:"mode"`
	Node          string            `json:"node"`
	Ticks         int64             `json:"ticks"`
	Namespace     string            `json:"namespace"`
	Labels        map[string]string `json:"labels"`
	Open          bool              `json:"open"`
}

// decodeObjects returns pods and nodes as pointers to their Go types.
func decodeObjects(raw []json.RawMessage) ([]metav1.Object, error) {
	objects := make([]metav1.Object, len(raw))
	for i := range raw {
		var meta metav1.TypeMeta
		if err := json.Unmarshal(raw[i], &meta); err != nil {
			return nil, err
		}
		switch meta.Kind {
		case "Pod":
			objects[i] = &v1.Pod{}
		case "Node":
			objects[i] = &v1.Node{}
		default:
			return nil, fmt.Errorf("object %d: kind %q is neither Pod nor Node", i, meta.Kind)
		}
		if err := json.Unmarshal(raw[i], objects[i]); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

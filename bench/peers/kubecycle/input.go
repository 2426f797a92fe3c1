package main

import (
	"encoding/json"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"

	"peers/internal/gen"
)

// input is a cluster from a file, as bench/unlike.py writes it.
type input struct {
	Nodes       []v1.Node            `json:"nodes"`
	Pods        []v1.Pod             `json:"pods"`
	ReplicaSets []*appsv1.ReplicaSet `json:"replicaSets"`
	Pending     map[string][]*v1.Pod `json:"pending"`
}

func readInput(path string) (*input, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	in := &input{}
	return in, json.NewDecoder(file).Decode(in)
}

func (in *input) nodeList() *v1.NodeList { return &v1.NodeList{Items: in.Nodes} }
func (in *input) podList() *v1.PodList   { return &v1.PodList{Items: in.Pods} }

// pendingPod makes the n-th pending pod of a class: one of the file, if there is a file.
func (in *input) pendingPod(class string, n int) *v1.Pod {
	if in == nil {
		return gen.PendingPod(class, n)
	}
	return in.Pending[class][n%len(in.Pending[class])].DeepCopy()
}

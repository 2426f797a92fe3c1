// Command reference_queue_1_37 drives the scheduling queue of kube-scheduler v1.37.2. It reads scripts, one JSON object a line, and
// prints for each a JSON line with the whole state of the queue after each step.
package main

import (
	"bufio"
	"encoding/json"
	"log"
	"os"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

func main() {
	klog.SetLogger(klog.Logger{})
	metrics.Register()
	input := bufio.NewReaderSize(os.Stdin, 1<<20)
	output := bufio.NewWriterSize(os.Stdout, 1<<20)
	defer output.Flush()
	decoder, encoder := json.NewDecoder(input), json.NewEncoder(output)
	decoder.DisallowUnknownFields()
	for decoder.More() {
		var script script
		if err := decoder.Decode(&script); err != nil {
			log.Fatalf("reading a script: %v", err)
		}
		states, err := script.run()
		if err != nil {
			log.Fatalf("script %s: %v", script.Name, err)
		}
		if err := encoder.Encode(states); err != nil {
			log.Fatal(err)
		}
	}
}

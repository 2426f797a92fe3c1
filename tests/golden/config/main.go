// Command config writes what kube-scheduler says to configurations, for the unit tests of the config room.
// Run it in its folder: go run . cases.yaml ../../unit/config/golden
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log"
	"os"
	"path/filepath"

	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"
)

const typeMeta = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// A testCase is one configuration and what goes with it.
type testCase struct {
	Name string `json:"name"`
	// Config is a whole file.
	Config string `json:"config"`
	// Body is a file without apiVersion and kind.
	Body string `json:"body,omitempty"`
	// Paths are those that our service names where kube-scheduler's error names none.
	Paths []string `json:"paths,omitempty"`
	// VolumeCapacityPriority turns on the feature gate of that name.
	VolumeCapacityPriority bool `json:"volumeCapacityPriority,omitempty"`
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: config CASES FOLDER")
	}
	klog.SetLogger(klog.Logger{})
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var cases []testCase
	if err := yaml.UnmarshalStrict(text, &cases); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	valid, invalid := []any{}, []any{}
	var defaults *accepted
	for _, item := range cases {
		if item.Body != "" {
			item.Config, item.Body = typeMeta+item.Body, ""
		}
		accepted, rejected := judge(ctx, item)
		if rejected != nil {
			invalid = append(invalid, rejected)
		} else if defaults == nil {
			defaults = accepted
			valid = append(valid, accepted)
		} else {
			valid = append(valid, accepted.without(defaults))
		}
	}
	write(filepath.Join(os.Args[2], "valid.json"), valid)
	write(filepath.Join(os.Args[2], "invalid.json"), invalid)
	write(filepath.Join(os.Args[2], "extension_points.json"), []any{extensionPoints(ctx)})
	write(filepath.Join(os.Args[2], "durations.json"), durations())
	write(filepath.Join(os.Args[2], "scalars.json"), scalars())
	log.Printf("%d valid, %d invalid", len(valid), len(invalid))
}

// write puts the values into a new file as a JSON array, one value on each line.
func write(path string, values []any) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	for i, value := range values {
		buffer.WriteString(map[bool]string{true: "[\n", false: ","}[i == 0])
		if err := encoder.Encode(value); err != nil {
			log.Fatal(err)
		}
	}
	buffer.WriteString("]\n")
	if err := os.WriteFile(path, buffer.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
}

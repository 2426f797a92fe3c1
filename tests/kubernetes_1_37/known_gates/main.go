// Command known_gates prints the feature gates that kube-scheduler v1.37.2 knows, as JSON: by name, the stage, the
// default, whether that is locked, and the gates that it depends on.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apiserver/pkg/util/feature"
	logsapi "k8s.io/component-base/logs/api/v1"
	metrics "k8s.io/component-base/metrics/features"
	_ "k8s.io/kubernetes/pkg/features"
)

func main() {
	gates := feature.DefaultMutableFeatureGate
	for _, add := range []error{logsapi.AddFeatureGates(gates), metrics.AddFeatureGates(gates)} {
		if add != nil {
			fmt.Fprintln(os.Stderr, "known_gates:", add)
			os.Exit(1)
		}
	}
	dependencies := gates.Dependencies()
	known := map[string][]any{}
	for name, spec := range gates.GetAll() {
		known[string(name)] = []any{spec.PreRelease, spec.Default, spec.LockToDefault, dependencies[name]}
	}
	if err := json.NewEncoder(os.Stdout).Encode(known); err != nil {
		fmt.Fprintln(os.Stderr, "known_gates:", err)
		os.Exit(1)
	}
}

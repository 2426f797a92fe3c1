package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

var (
	seed  = flag.Int("seed", 1, "seed of the generated cases")
	count = flag.Int("count", 3, "generated cases of each family")
)

// TestCrossCheck compares the verdicts on generated cases with what the whole
// scheduler, with its own cache, queue and informers, decides.
func TestCrossCheck(t *testing.T) {
	metrics.Register()
	generated, err := exec.Command("python3", "../../oracle/generate.py", "--seed", strconv.Itoa(*seed), "--count", strconv.Itoa(*count), "--release", "1.37").Output()
	if err != nil {
		t.Skipf("generating cases: %v", err)
	}
	scanner := bufio.NewScanner(bytes.NewReader(generated))
	scanner.Buffer(nil, maxLine)
	for scanner.Scan() {
		var raw rawCase
		if err := json.Unmarshal(scanner.Bytes(), &raw); err != nil {
			t.Fatal(err)
		}
		t.Run(raw.Name, func(t *testing.T) {
			t.Parallel()
			crossCheck(t, raw)
		})
	}
}

func crossCheck(t *testing.T, raw rawCase) {
	ctx, cancel := context.WithCancel(withLogging(context.Background(), -1))
	defer cancel()
	c, err := raw.decode()
	if err != nil {
		t.Fatal(err)
	}
	verdict, err := evaluate(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if verdict.PreEnqueue != nil || c.pod.Spec.NodeName != "" {
		t.Skip("the scheduler would not try this pod")
	}

	// Decode again: nothing is then shared with the evaluation above.
	c, err = raw.decode()
	if err != nil {
		t.Fatal(err)
	}
	sched, snapshot := startScheduler(ctx, t, c)
	profile := sched.Profiles[c.pod.Spec.SchedulerName]
	state := framework.NewCycleState()
	info, _ := framework.NewPodInfo(c.pod)
	if err := sched.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot); err != nil {
		t.Fatal(err)
	}
	result, err := sched.SchedulePod(ctx, profile, state, &framework.QueuedPodInfo{PodInfo: info})

	var fitError *framework.FitError
	switch {
	case err == nil:
		checkPlaced(t, verdict, result, profile.HasScorePlugins(), imageSizesAgree(c.objects))
	case errors.As(err, &fitError):
		checkStatuses(t, verdict, fitError.Diagnosis.NodeToStatus)
		if verdict.Preempt != nil {
			nominated, status := profile.RunPostFilterPlugins(ctx, state, c.pod, fitError.Diagnosis.NodeToStatus)
			checkPreempted(t, verdict.Preempt, nominated, status)
		}
	case verdict.CycleError == "":
		t.Errorf("scheduler failed: %v", err)
	}
}

func startScheduler(ctx context.Context, t *testing.T, c *testCase) (*scheduler.Scheduler, *internalcache.Snapshot) {
	// The fake API server cannot select pods by phase.
	objects := slices.DeleteFunc(c.objects, func(obj runtime.Object) bool {
		pod, ok := obj.(*v1.Pod)
		return ok && (terminated(pod) || pod.UID == c.pod.UID)
	})
	if _, err := profileFor(c.config, c.pod.Spec.SchedulerName); err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset(append(objects, c.pod)...)
	factory := scheduler.NewInformerFactory(client, 0, nil)
	recorders := func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }
	snapshot := internalcache.NewEmptySnapshot()
	sched, err := scheduler.New(ctx, client, factory, nil, recorders,
		scheduler.WithComponentConfigVersion(c.config.TypeMeta.APIVersion),
		scheduler.WithProfiles(c.config.Profiles...),
		scheduler.WithNodeInfoSnapshot(snapshot))
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		t.Fatal(err)
	}
	// Plugins have handlers of their own that nobody waits for.
	time.Sleep(100 * time.Millisecond)
	return sched, snapshot
}

// imageSizesAgree tells whether all nodes report the same size for an image.
// Scores depend on the order in which nodes arrive otherwise, and the fake API
// server lists them in random order.
func imageSizesAgree(objects []runtime.Object) bool {
	sizes := map[string]int64{}
	for _, obj := range objects {
		node, ok := obj.(*v1.Node)
		if !ok {
			continue
		}
		for _, image := range node.Status.Images {
			for _, name := range image.Names {
				if size, ok := sizes[name]; ok && size != image.SizeBytes {
					return false
				}
				sizes[name] = image.SizeBytes
			}
		}
	}
	return true
}

func checkPlaced(t *testing.T, verdict *Verdict, result scheduler.ScheduleResult, scored, comparable bool) {
	want := len(verdict.Feasible)
	if !scored && want > 1 {
		want = 1
	}
	if result.FeasibleNodes != want {
		t.Errorf("scheduler has %d feasible nodes, verdict %v", result.FeasibleNodes, verdict.Feasible)
	}
	if !slices.Contains(verdict.Feasible, result.SuggestedHost) {
		t.Errorf("scheduler took %s, verdict has %v", result.SuggestedHost, verdict.Feasible)
	}
	if scored && comparable && len(verdict.Feasible) > 1 {
		for node, total := range verdict.Total {
			if total > verdict.Total[result.SuggestedHost] {
				t.Errorf("scheduler took %s, but %s scores higher: %v", result.SuggestedHost, node, verdict.Total)
			}
		}
	}
}

func checkStatuses(t *testing.T, verdict *Verdict, statuses *framework.NodeToStatus) {
	got := map[string]PluginStatus{}
	statuses.ForEachExplicitNode(func(node string, status *fwk.Status) {
		got[node] = newPluginStatus(status)
	})
	want := verdict.Filter
	if want == nil {
		// PreFilter rejected the pod: no node has a status of its own.
		want = map[string]PluginStatus{}
		if got := newPluginStatus(statuses.AbsentNodesStatus()); !reflect.DeepEqual(got, verdict.PreFilter.PluginStatus) {
			t.Errorf("scheduler gives %v to all nodes, verdict %v", encode(got), encode(verdict.PreFilter.PluginStatus))
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("scheduler gives %v, verdict %v", encode(got), encode(want))
	}
	if len(verdict.Feasible) > 0 || verdict.CycleError != "" {
		t.Errorf("scheduler finds no node, verdict %v, error %q", verdict.Feasible, verdict.CycleError)
	}
}

func checkPreempted(t *testing.T, verdict *PreemptVerdict, result *fwk.PostFilterResult, status *fwk.Status) {
	node := ""
	if result != nil && result.NominatingInfo != nil {
		node = result.NominatingInfo.NominatedNodeName
	}
	got := newPluginStatus(status)
	if verdict.Selected != nil {
		got = naming(got, node, *verdict.Selected)
	}
	if !reflect.DeepEqual(got, verdict.PluginStatus) {
		t.Errorf("scheduler ends with %s, verdict %s", encode(got), encode(verdict.PluginStatus))
	}
	if node == "" && len(verdict.Tied) == 0 || slices.Contains(verdict.Tied, node) {
		return
	}
	t.Errorf("scheduler nominates %q, verdict %v", node, verdict.Tied)
}

func encode(value any) string {
	encoded, _ := json.Marshal(value)
	return string(encoded)
}

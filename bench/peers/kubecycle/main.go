// kubecycle measures kube-scheduler itself, in process:
//
//	kubecycle cycle    one scheduling cycle (SchedulePod, and preemption) per class of pod and cluster size
//	kubecycle mem      time, memory and processor time of loading the scheduler's informers and cache
//	kubecycle decode   time and memory of decoding a PodList with client-go's decoders
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"peers/internal/gen"
	"peers/internal/stats"
	"peers/internal/stub"
)

func main() {
	klog.InitFlags(flag.NewFlagSet("klog", flag.ContinueOnError))
	klog.SetOutput(io.Discard) // errors still go to standard error
	klog.LogToStderr(false)
	if len(os.Args) < 2 {
		fail(errors.New("usage: kubecycle cycle|mem|decode [flags]"))
	}
	cmd := os.Args[1]
	os.Args = append(os.Args[:1], os.Args[2:]...)
	var err error
	switch cmd {
	case "cycle":
		err = cycle()
	case "mem":
		err = mem()
	case "decode":
		err = decode()
	default:
		err = fmt.Errorf("unknown command %q", cmd)
	}
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "kubecycle:", err)
	os.Exit(1)
}

func clusterFlags(o *gen.Opts, images int) {
	flag.IntVar(&o.PodsPerNode, "pods-per-node", 10, "assigned pods of each node")
	flag.IntVar(&o.Zones, "zones", 3, "zones")
	flag.IntVar(&o.Images, "images", images, "images of each node")
}

// start makes a scheduler over the client's cluster and waits until its cache holds it.
func start(ctx context.Context, cs kubernetes.Interface, nodes int, opts ...scheduler.Option) (*scheduler.Scheduler, informers.SharedInformerFactory, error) {
	f := scheduler.NewInformerFactory(cs, 0)
	rec := profile.RecorderFactory(func(string) events.EventRecorder { return &events.FakeRecorder{} })
	sched, err := scheduler.New(ctx, cs, f, nil, rec, opts...)
	if err != nil {
		return nil, nil, err
	}
	f.Start(ctx.Done())
	f.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		return nil, nil, err
	}
	for i := 0; sched.Cache.NodeCount() < nodes; i++ {
		if i > 60000 {
			return nil, nil, fmt.Errorf("the cache has %d nodes, not %d", sched.Cache.NodeCount(), nodes)
		}
		time.Sleep(time.Millisecond)
	}
	return sched, f, nil
}

// fakeClient serves the cluster without the tracker of the fake clientset, which would hold every object a
// second time, and pretends that deletions, patches and evictions succeed, so that preemption has no effect.
func fakeClient(nodes, pods kruntime.Object, replicaSets []*appsv1.ReplicaSet) *fake.Clientset {
	cs := fake.NewSimpleClientset()
	cs.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, kruntime.Object, error) {
		l := nodes
		nodes = nil
		return true, l, nil
	})
	cs.PrependReactor("list", "pods", func(clienttesting.Action) (bool, kruntime.Object, error) { l := pods; pods = nil; return true, l, nil })
	hold := func(clienttesting.Action) (bool, watch.Interface, error) { return true, watch.NewFake(), nil }
	cs.PrependWatchReactor("nodes", hold)
	cs.PrependWatchReactor("pods", hold)
	done := func(clienttesting.Action) (bool, kruntime.Object, error) { return true, &v1.Pod{}, nil }
	for _, verb := range []string{"delete", "patch", "update"} {
		cs.PrependReactor(verb, "pods", done)
	}
	for _, rs := range replicaSets {
		_ = cs.Tracker().Add(rs)
	}
	_ = cs.Tracker().Add(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	return cs
}

func replicaSets() (all []*appsv1.ReplicaSet) {
	for a := 0; a < gen.Apps; a++ {
		all = append(all, gen.ReplicaSet(a))
	}
	return all
}

func cycle() error {
	var o gen.Opts
	clusterFlags(&o, 3)
	sizes := flag.String("nodes", "100,500,1000,5000,15000", "cluster sizes")
	percents := flag.String("percent", "100,0", "percentageOfNodesToScore (0: adaptive, the default of kube-scheduler)")
	classes := flag.String("classes", strings.Join(gen.Classes, ","), "classes of pending pods")
	par := flag.Int("parallelism", 16, "parallelism")
	minReps := flag.Int("min-reps", 20, "at least so many cycles of each class")
	maxReps := flag.Int("max-reps", 300, "at most so many cycles of each class")
	budget := flag.Duration("budget", 2500*time.Millisecond, "time of each class, past min-reps")
	rounds := flag.Int("rounds", 1, "repeat all of it so many times")
	ext := flag.String("extender", "", "address of an extender to configure (nodeCacheCapable, filter and prioritize, weight 1)")
	replace := flag.Bool("replace", false, "with -extender: switch the in-tree Filter and Score plugins off")
	inputPath := flag.String("input", "", "file with nodes, pods, replicaSets, and pending pods by class, in place of the synthetic cluster")
	out := flag.String("out", "", "append JSON lines to this file (- for standard error)")
	flag.Parse()
	ns, err := stats.Ints(*sizes)
	if err != nil {
		return err
	}
	var in *input
	if *inputPath != "" {
		if in, err = readInput(*inputPath); err != nil {
			return err
		}
		ns = []int{len(in.Nodes)}
	}
	ps, err := stats.Ints(*percents)
	if err != nil {
		return err
	}
	sink, err := stats.NewSink(*out, "nodes", "percent", "class", "reps", "evaluated", "feasible", "min_ms", "p50_ms", "p99_ms", "cpu_ms", "pf_p50_ms", "pf_p99_ms", "pf_cpu_ms")
	if err != nil {
		return err
	}
	for round := 0; round < *rounds; round++ {
		for _, n := range ns {
			for _, pct := range ps {
				o.Nodes = n
				if err := cycleAt(o, in, int32(pct), int32(*par), *ext, *replace, strings.Split(*classes, ","), *minReps, *maxReps, *budget, round, sink); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// bareProfile leaves filtering, scoring and preemption to an extender.
func bareProfile() schedulerapi.KubeSchedulerProfile {
	only := func(name string) schedulerapi.PluginSet {
		return schedulerapi.PluginSet{Enabled: []schedulerapi.Plugin{{Name: name}}}
	}
	return schedulerapi.KubeSchedulerProfile{
		SchedulerName: v1.DefaultSchedulerName,
		Plugins:       &schedulerapi.Plugins{QueueSort: only("PrioritySort"), Bind: only("DefaultBinder")},
	}
}

func cycleAt(o gen.Opts, in *input, pct, par int32, ext string, replace bool, classes []string, minReps, maxReps int, budget time.Duration, round int, sink *stats.Sink) error {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Background()))
	defer cancel()
	logger := klog.FromContext(ctx)
	opts := []scheduler.Option{scheduler.WithPercentageOfNodesToScore(&pct), scheduler.WithParallelism(par)}
	if ext != "" {
		opts = append(opts, scheduler.WithExtenders(schedulerapi.Extender{
			URLPrefix: ext, FilterVerb: "filter", PrioritizeVerb: "prioritize", Weight: 1, NodeCacheCapable: true, HTTPTimeout: metav1.Duration{Duration: time.Minute},
		}))
		if replace {
			opts = append(opts, scheduler.WithProfiles(bareProfile()))
		}
	}
	var cs *fake.Clientset
	pods := o.Nodes * o.PodsPerNode
	if in == nil {
		cs = fakeClient(stub.Nodes(o), stub.Pods(o), replicaSets())
	} else {
		cs = fakeClient(in.nodeList(), in.podList(), in.ReplicaSets)
		pods = len(in.Pods)
	}
	sched, f, err := start(ctx, cs, o.Nodes, opts...)
	if err != nil {
		return err
	}
	if c, err := sched.Cache.PodCount(); err != nil || c != pods {
		return fmt.Errorf("the cache has %d pods (%v)", c, err)
	}
	fwk := sched.Profiles["default-scheduler"]
	runtime.GC()
	for _, class := range classes {
		var lat, pf stats.Lat
		var cpu, pfCPU time.Duration
		var placed []*v1.Pod
		var last scheduler.ScheduleResult
		var nominated string
		window := min(20, o.Nodes/10+1)
		begin := time.Now()
		for r := -3; r < maxReps && (r < minReps || time.Since(begin) < budget); r++ {
			pod := in.pendingPod(class, r+3)
			if class == "unsched" || class == "preempt" {
				// Preemption looks the preemptor up in the informer's store.
				if err := f.Core().V1().Pods().Informer().GetIndexer().Add(pod); err != nil {
					return err
				}
			}
			state := framework.NewCycleState()
			c0, t0 := stats.SelfCPU(), time.Now()
			res, err := sched.SchedulePod(ctx, fwk, state, pod)
			d, c1 := time.Since(t0), stats.SelfCPU()
			var fit *framework.FitError
			switch {
			case err == nil:
				last = res
				// The pod is really placed, so that the next cycle has a node to renew in its snapshot.
				p := pod.DeepCopy()
				p.Spec.NodeName = res.SuggestedHost
				if err := sched.Cache.AddPod(logger, p); err != nil {
					return err
				}
				placed = append(placed, p)
				if len(placed) > window {
					if err := removeAll(logger, sched, placed); err != nil {
						return err
					}
					placed = nil
				}
			case errors.As(err, &fit):
				last.EvaluatedNodes, last.FeasibleNodes = len(fit.Diagnosis.NodeToStatusMap), 0
				c2, t2 := stats.SelfCPU(), time.Now()
				res, _ := fwk.RunPostFilterPlugins(ctx, state, pod, fit.Diagnosis.NodeToStatusMap)
				d2, c3 := time.Since(t2), stats.SelfCPU()
				if res != nil && res.NominatingInfo != nil {
					nominated = res.NominatedNodeName
				}
				if r >= 0 {
					pf = append(pf, d2)
					pfCPU += c3 - c2
				}
			default:
				return fmt.Errorf("%s: %w", class, err)
			}
			if r >= 0 {
				lat = append(lat, d)
				cpu += c1 - c0
			}
		}
		if err := removeAll(logger, sched, placed); err != nil {
			return err
		}
		row := map[string]any{
			"bench": "kubecycle", "round": round, "nodes": o.Nodes, "pods": pods, "percent": int(pct), "extender": ext, "replace": replace, "parallelism": int(par), "class": class, "reps": len(lat),
			"evaluated": last.EvaluatedNodes, "feasible": last.FeasibleNodes, "min_ms": lat.Q(0), "p50_ms": lat.Q(.5), "p90_ms": lat.Q(.9), "p99_ms": lat.Q(.99), "mean_ms": lat.Mean(),
			"cpu_ms": stats.Ms(cpu / time.Duration(len(lat))),
		}
		if len(pf) > 0 {
			row["pf_min_ms"], row["pf_p50_ms"], row["pf_p99_ms"], row["pf_cpu_ms"], row["nominated"] = pf.Q(0), pf.Q(.5), pf.Q(.99), stats.Ms(pfCPU/time.Duration(len(pf))), nominated
		}
		sink.Put(row)
	}
	return nil
}

// removeAll lets placed pods go. An extender that remembers its answers hears of it by being asked about them, and no node.
func removeAll(logger klog.Logger, sched *scheduler.Scheduler, placed []*v1.Pod) error {
	for _, p := range placed {
		if err := sched.Cache.RemovePod(logger, p); err != nil {
			return err
		}
		for _, e := range sched.Extenders {
			if _, _, _, err := e.Filter(p, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// child starts stubapi, which stands beside this program, and gives its address.
func child(path string, o gen.Opts, format string) (string, func(), error) {
	c := exec.Command(path, "-nodes", fmt.Sprint(o.Nodes), "-pods-per-node", fmt.Sprint(o.PodsPerNode), "-zones", fmt.Sprint(o.Zones), "-images", fmt.Sprint(o.Images), "-format", format)
	c.Stderr = os.Stderr
	r, err := c.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := c.Start(); err != nil {
		return "", nil, err
	}
	stop := func() { _ = c.Process.Kill(); _ = c.Wait() }
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, err
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "ready ")), stop, nil
}

func mem() error {
	var o gen.Opts
	clusterFlags(&o, 46)
	flag.IntVar(&o.Nodes, "nodes", 5000, "nodes")
	format := flag.String("format", "proto", "proto (the default of kube-scheduler) or json")
	api := flag.String("api", "", "address of a stubapi or API server that runs already (else -stubapi is started)")
	stubPath := flag.String("stubapi", "./bin/stubapi", "the stubapi program")
	out := flag.String("out", "", "append JSON lines to this file")
	flag.Parse()
	sink, err := stats.NewSink(*out, "case", "nodes", "pods", "format", "sync_s", "cpu_s", "heap_MiB", "rss_MiB", "peak_MiB", "rss_idle_MiB", "first_ms")
	if err != nil {
		return err
	}
	url := *api
	if url == "" {
		u, stop, err := child(*stubPath, o, *format)
		if err != nil {
			return err
		}
		defer stop()
		url = u
	}
	ct := map[string]string{"proto": "application/vnd.kubernetes.protobuf", "json": "application/json"}[*format]
	cs, err := kubernetes.NewForConfig(&rest.Config{Host: url, ContentConfig: rest.ContentConfig{ContentType: ct, AcceptContentTypes: ct + ",application/json"}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Background()))
	defer cancel()
	base := stats.Of("self")
	t0, c0 := time.Now(), stats.SelfCPU()
	sched, f, err := start(ctx, cs, o.Nodes)
	if err != nil {
		return err
	}
	d, cpu := time.Since(t0), stats.SelfCPU()-c0
	pods, err := sched.Cache.PodCount()
	if err != nil {
		return err
	}
	p := stats.Of("self")
	state, pod := framework.NewCycleState(), gen.PendingPod("plain", 0)
	t1 := time.Now()
	if _, err := sched.SchedulePod(ctx, sched.Profiles["default-scheduler"], state, pod); err != nil {
		return err
	}
	first := time.Since(t1)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	debug.FreeOSMemory()
	idle := stats.Of("self")
	sink.Put(map[string]any{
		"bench": "kubecycle-mem", "case": "informers+cache", "nodes": o.Nodes, "pods": pods, "format": *format, "sync_s": d.Seconds(), "cpu_s": cpu.Seconds(),
		"heap_MiB": float64(m.HeapAlloc) / (1 << 20), "rss_MiB": p.RSSMiB, "peak_MiB": idle.PeakMiB, "rss_idle_MiB": idle.RSSMiB, "base_rss_MiB": base.RSSMiB, "first_ms": stats.Ms(first),
	})
	runtime.KeepAlive(f)
	return nil
}

func decode() error {
	o := gen.Opts{}
	clusterFlags(&o, 46)
	flag.IntVar(&o.Nodes, "nodes", 15000, "nodes")
	reps := flag.Int("reps", 3, "repeats")
	out := flag.String("out", "", "append JSON lines to this file")
	flag.Parse()
	sink, err := stats.NewSink(*out, "case", "kind", "items", "MB", "reps", "min_ms", "p50_ms", "MB_per_s", "us_per_item", "cpu_ms", "heap_MiB")
	if err != nil {
		return err
	}
	for _, kind := range []string{"pods", "nodes"} {
		var l kruntime.Object
		var into func() kruntime.Object
		var items int
		if kind == "pods" {
			l, into, items = stub.Pods(o), func() kruntime.Object { return &v1.PodList{} }, o.Nodes*o.PodsPerNode
		} else {
			l, into, items = stub.Nodes(o), func() kruntime.Object { return &v1.NodeList{} }, o.Nodes
		}
		js, err := stub.JSON(l)
		if err != nil {
			return err
		}
		pb, err := stub.Proto(l)
		if err != nil {
			return err
		}
		l = nil
		client := func(mediaType string) func([]byte, kruntime.Object) error {
			codecs := scheme.Codecs.WithoutConversion()
			info, _ := kruntime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), mediaType)
			d := codecs.DecoderToVersion(info.Serializer, v1.SchemeGroupVersion)
			return func(b []byte, o kruntime.Object) error { _, _, err := d.Decode(b, nil, o); return err }
		}
		for _, c := range []struct {
			name string
			body []byte
			f    func([]byte, kruntime.Object) error
		}{
			{"client-go proto", pb, client("application/vnd.kubernetes.protobuf")},
			{"client-go json", js, client("application/json")},
			{"encoding/json", js, func(b []byte, o kruntime.Object) error { return json.Unmarshal(b, o) }},
		} {
			var lat stats.Lat
			var heap float64
			var cpu time.Duration
			for r := 0; r < *reps; r++ {
				runtime.GC()
				var a, b runtime.MemStats
				runtime.ReadMemStats(&a)
				obj := into()
				c0, t := stats.SelfCPU(), time.Now()
				if err := c.f(c.body, obj); err != nil {
					return err
				}
				lat = append(lat, time.Since(t))
				cpu += stats.SelfCPU() - c0
				runtime.GC()
				runtime.ReadMemStats(&b)
				heap = (float64(b.HeapAlloc) - float64(a.HeapAlloc)) / (1 << 20)
				runtime.KeepAlive(obj)
			}
			mb := float64(len(c.body)) / 1e6
			sink.Put(map[string]any{"bench": "decode", "case": c.name, "kind": kind, "items": items, "MB": mb, "reps": len(lat), "min_ms": lat.Q(0), "p50_ms": lat.Q(.5),
				"MB_per_s": mb / lat.Q(0) * 1000, "us_per_item": lat.Q(0) * 1000 / float64(items), "cpu_ms": stats.Ms(cpu / time.Duration(*reps)), "heap_MiB": heap})
		}
	}
	return nil
}

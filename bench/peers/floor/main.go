// floor is a scheduler that does not think: it binds each pending pod to the next node in turn, and writes one event for
// it as kube-scheduler does. No scheduler with these writes binds more pods on the same machine and API server.
//
// On SIGTERM it prints what it has done as a line of JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"

	"peers/internal/stats"
)

// counts is what the program prints at its end.
type counts struct {
	bound, refused, recorded, written, next atomic.Int64
}

// countingSink counts the events that the API server accepted. The broadcaster drops events without a word if its
// queue of 1,000 is full.
type countingSink struct {
	events.EventSinkImpl
	written *atomic.Int64
}

func (s *countingSink) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	created, err := s.EventSinkImpl.Create(ctx, event)
	if err == nil {
		s.written.Add(1)
	}
	return created, err
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	name := flag.String("scheduler-name", v1.DefaultSchedulerName, "the spec.schedulerName of its pods")
	qps := flag.Float64("qps", 20_000, "requests a second, of bindings and of events each")
	burst := flag.Int("burst", 20_000, "requests at once, likewise")
	workers := flag.Int("workers", 100, "bindings at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var c counts
	if err := run(ctx, &c, *kubeconfig, *name, float32(*qps), *burst, *workers); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{
		"bound":          c.bound.Load(),
		"refused":        c.refused.Load(),
		"events_written": c.written.Load(),
		"events_dropped": c.recorded.Load() - c.written.Load(),
		"cpu_seconds":    stats.SelfCPU().Seconds(),
	})
}

// run binds until the context ends.
func run(ctx context.Context, c *counts, kubeconfig, name string, qps float32, burst, workers int) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = qps, burst
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = config.ContentType + ",application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	// As in kube-scheduler, events have a client and a limit of their own.
	eventsClient, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "events"))
	if err != nil {
		return err
	}
	sink := &countingSink{events.EventSinkImpl{Interface: eventsClient.EventsV1()}, &c.written}
	broadcaster := events.NewBroadcaster(sink)
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return err
	}
	recorder := broadcaster.NewRecorder(scheme.Scheme, name)
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	if len(nodes.Items) == 0 {
		return fmt.Errorf("the cluster has no nodes")
	}

	pending := make(chan *v1.Pod, 100_000)
	for range workers {
		go func() {
			for pod := range pending {
				node := nodes.Items[int(c.next.Add(1))%len(nodes.Items)].Name
				binding := &v1.Binding{
					ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
					Target:     v1.ObjectReference{Kind: "Node", Name: node},
				}
				if err := client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
					c.refused.Add(1)
					continue
				}
				c.bound.Add(1)
				c.recorded.Add(1)
				recorder.Eventf(pod, nil, v1.EventTypeNormal, "Scheduled", "Binding", "Successfully assigned %v/%v to %v", pod.Namespace, pod.Name, node)
			}
		}()
	}
	watched := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", "", fields.ParseSelectorOrDie("spec.nodeName=,spec.schedulerName="+name))
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: watched,
		ObjectType:    &v1.Pod{},
		Handler:       cache.ResourceEventHandlerFuncs{AddFunc: func(o any) { pending <- o.(*v1.Pod) }},
	})
	informer.Run(ctx.Done())
	return nil
}

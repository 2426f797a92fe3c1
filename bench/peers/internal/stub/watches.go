package stub

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"peers/internal/gen"
)

const expired = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old resource version","reason":"Expired","code":410}}` + "\n"

// bookmarkEvery is how often a watch that asks for bookmarks is told that nothing has happened. Watches do not end here,
// whatever their timeoutSeconds: a bookmark is what shows that they live.
const bookmarkEvery = 3 * time.Second

var kinds = map[string]string{
	"csidrivers":             "CSIDriver",
	"csinodes":               "CSINode",
	"csistoragecapacities":   "CSIStorageCapacity",
	"namespaces":             "Namespace",
	"nodes":                  "Node",
	"persistentvolumeclaims": "PersistentVolumeClaim",
	"persistentvolumes":      "PersistentVolume",
	"poddisruptionbudgets":   "PodDisruptionBudget",
	"pods":                   "Pod",
	"replicasets":            "ReplicaSet",
	"replicationcontrollers": "ReplicationController",
	"services":               "Service",
	"statefulsets":           "StatefulSet",
	"storageclasses":         "StorageClass",
}

// watches are idle until somebody asks for something to happen.
type watches struct {
	opts    gen.Opts
	version atomic.Int64 // of the last event

	mu   sync.Mutex
	pods map[chan []byte]bool // open JSON watches of pods; each takes events a chunk at a time
	gone chan struct{}        // closed when every watch has to end
}

func newWatches(o gen.Opts) *watches {
	s := &watches{opts: o, pods: map[chan []byte]bool{}, gone: make(chan struct{})}
	s.version.Store(listVersion)
	return s
}

func (s *watches) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.gone)
	s.gone = make(chan struct{})
}

func (s *watches) serve(w http.ResponseWriter, r *http.Request) {
	contentType := "application/json"
	if acceptsProto(r) {
		contentType = protoType + ";stream=watch"
	}
	chunks := make(chan []byte)
	s.mu.Lock()
	gone := s.gone
	if r.URL.Path == podsPath && !acceptsProto(r) {
		s.pods[chunks] = true
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.pods, chunks)
		s.mu.Unlock()
	}()
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	bookmarks := &time.Ticker{}
	if r.URL.Query().Get("allowWatchBookmarks") != "" && !acceptsProto(r) {
		bookmarks = time.NewTicker(bookmarkEvery)
		defer bookmarks.Stop()
	}
	for {
		select {
		case <-bookmarks.C:
			if b := s.bookmark(r.URL.Path); b != "" {
				fmt.Fprint(w, b)
				w.(http.Flusher).Flush()
			}
		case <-r.Context().Done():
			return
		case <-gone:
			if !acceptsProto(r) {
				fmt.Fprint(w, expired)
			}
			return
		case chunk := <-chunks:
			_, _ = w.Write(chunk)
			w.(http.Flusher).Flush()
		}
	}
}

// bookmark is empty for what neither kube-scheduler nor its extenders watch.
func (s *watches) bookmark(of string) string {
	group, resource := path.Split(of)
	kind, ok := kinds[resource]
	if !ok {
		return ""
	}
	version := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(group, "/"), "/apis/"), "/api/")
	return fmt.Sprintf(`{"type":"BOOKMARK","object":{"kind":"%s","apiVersion":"%s","metadata":{"resourceVersion":"%d"}}}`+"\n", kind, version, s.version.Load())
}

// sendEvents answers with the number of events, and the time that it took to write them.
func (s *watches) sendEvents(w http.ResponseWriter, r *http.Request) {
	pods, err := strconv.Atoi(r.URL.Query().Get("pods"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	// All of it is encoded before the first is sent: what is measured is who reads.
	var chunks [][]byte
	count := 0
	for i := 0; i < pods; i++ {
		events, err := s.life(i)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		chunks = append(chunks, bytes.Join(events, nil))
		count += len(events)
	}
	s.mu.Lock()
	var open []chan []byte
	for watch := range s.pods {
		open = append(open, watch)
	}
	s.mu.Unlock()
	begin := time.Now()
	for _, chunk := range chunks {
		for _, watch := range open {
			select {
			case watch <- chunk:
			case <-r.Context().Done(): // the watch has ended
				return
			}
		}
	}
	fmt.Fprintf(w, `{"events":%d,"seconds":%f}`, count, time.Since(begin).Seconds())
}

// life is what a watch tells of a pod: created, bound, running, told to stop, gone.
func (s *watches) life(i int) ([][]byte, error) {
	pod := gen.PendingPod("plain-rs", i)
	running := gen.AssignedPod(i%s.opts.Nodes, i%s.opts.PodsPerNode, s.opts)
	pod.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
	var events [][]byte
	for _, step := range []struct {
		kind   string
		change func()
	}{
		{"ADDED", func() {}},
		{"MODIFIED", func() { pod.Spec.NodeName = running.Spec.NodeName }},
		{"MODIFIED", func() { pod.Status = running.Status }},
		{"MODIFIED", func() { pod.DeletionTimestamp = running.Status.StartTime }},
		{"DELETED", func() {}},
	} {
		step.change()
		pod.ResourceVersion = fmt.Sprint(s.version.Add(1))
		b, err := json.Marshal(map[string]any{"type": step.kind, "object": pod})
		if err != nil {
			return nil, err
		}
		events = append(events, append(b, '\n'))
	}
	return events, nil
}

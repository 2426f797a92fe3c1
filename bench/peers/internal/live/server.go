// Package live is an API server in memory that costs next to nothing: there, the program that calls it is the limit. It
// keeps the objects that schedulers read, in JSON and protobuf, and accepts what they write: bindings, statuses,
// deletions, events and leases. It checks no rights and validates nothing but what a binding may run into.
//
//	POST   /stub/objects   creates a JSON array of objects of any kind; a pod may come with a nodeName and runs there
//	DELETE /stub/objects   deletes those of an array
//	GET    /stub/measures  what schedulers have bound and written so far, and when
//	GET    /stub/bound     when each bound pod was created and bound
package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

// server answers as an API server of one release, "1.31".
type server struct {
	release     string
	versions    atomic.Int64
	collections map[string]*collection // by root/plural
	byKind      map[schema.GroupVersionKind]*collection
	pages       pages
	measures    measures
}

// Handler serves an empty cluster but for the namespace "default".
func Handler(release string) (http.Handler, error) {
	if major, minor, ok := strings.Cut(release, "."); !ok || major != "1" || strings.Trim(minor, "0123456789") != "" || minor == "" {
		return nil, fmt.Errorf("release %q is not of the form 1.31", release)
	}
	s := &server{
		release:     release,
		collections: map[string]*collection{},
		byKind:      map[schema.GroupVersionKind]*collection{},
		pages:       pages{left: map[string]page{}},
	}
	s.versions.Store(1000)
	for _, k := range kinds {
		c := newCollection(k, &s.versions)
		s.collections[k.root()+"/"+k.plural] = c
		s.byKind[k.GroupVersionKind] = c
	}
	_, err := s.create(s.byKind[core("Namespace")], &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	return s, err
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t, isAPI := targetOf(r.URL.Path)
	switch {
	case r.URL.Path == "/stub/objects":
		s.changeAll(w, r)
	case r.URL.Path == "/stub/measures":
		writeJSON(w, http.StatusOK, s.measures.report())
	case r.URL.Path == "/stub/bound":
		writeJSON(w, http.StatusOK, s.measures.boundPods())
	case r.URL.Path == "/version":
		minor := strings.TrimPrefix(s.release, "1.")
		writeJSON(w, http.StatusOK, map[string]string{"major": "1", "minor": minor, "gitVersion": "v" + s.release + ".0"})
	case !isAPI:
		writeJSON(w, http.StatusOK, metav1.Status{Status: metav1.StatusSuccess}) // /readyz and the like
	case t.plural == "":
		s.discover(w, t.root)
	case t.plural == "events":
		s.event(w, r)
	default:
		c := s.collections[t.root+"/"+t.plural]
		if c == nil {
			fail(w, r, apierrors.NewNotFound(schema.GroupResource{Resource: t.plural}, t.name))
			return
		}
		s.serve(w, r, c, t)
	}
}

func (s *server) serve(w http.ResponseWriter, r *http.Request, c *collection, t target) {
	var answer *snapshot
	var err error
	status := http.StatusOK
	switch {
	case r.Method == http.MethodGet && t.name != "":
		answer = c.get(t.namespace, t.name)
	case r.Method == http.MethodGet:
		s.read(w, r, c, t)
		return
	case r.Method == http.MethodPost && t.subresource == "binding":
		if err = s.bind(c, t, r); err == nil {
			writeStatus(w, r, http.StatusCreated)
			return
		}
	case r.Method == http.MethodPost:
		created := c.empty()
		status = http.StatusCreated
		if err = decode(r, created); err == nil {
			created.SetNamespace(t.namespace)
			answer, err = s.create(c, created)
		}
	case r.Method == http.MethodPut:
		changed := c.empty()
		if err = decode(r, changed); err == nil {
			answer, err = s.replace(c, t, changed)
		}
	case r.Method == http.MethodPatch:
		answer, err = s.patch(c, t, r)
	case r.Method == http.MethodDelete && t.name != "":
		answer, err = c.remove(t.namespace, t.name)
	default:
		err = apierrors.NewMethodNotSupported(schema.GroupResource{Resource: c.plural}, r.Method)
	}
	if answer != nil && r.Method != http.MethodGet {
		s.measures.wrote(time.Now()) // a status or a deletion: preemption may write these before anything is bound
	}
	switch {
	case err != nil:
		fail(w, r, err)
	case answer == nil:
		fail(w, r, notFound(c, t.name))
	case acceptsProto(r):
		write(w, status, protoType, answer.inProto())
	default:
		write(w, status, jsonType, answer.inJSON())
	}
}

// read answers a list or a watch.
func (s *server) read(w http.ResponseWriter, r *http.Request, c *collection, t target) {
	q := r.URL.Query()
	selector, err := fields.ParseSelector(q.Get("fieldSelector"))
	if err != nil {
		fail(w, r, apierrors.NewBadRequest(err.Error()))
		return
	}
	if q.Get("sendInitialEvents") == "true" {
		fail(w, r, apierrors.NewInvalid(schema.GroupKind{}, "", nil)) // whereupon a client lists
		return
	}
	if q.Get("watch") == "true" || q.Get("watch") == "1" {
		serveWatch(w, r, c, selector)
		return
	}
	found, err := s.pages.read(q, func() ([]*snapshot, int64) { return c.list(t.namespace, selector) })
	if err != nil {
		fail(w, r, err)
		return
	}
	if !acceptsProto(r) {
		w.Header().Set("Content-Type", jsonType)
		start := `{"kind":"%sList","apiVersion":"%s","metadata":{"resourceVersion":"%d","continue":"%s"},"items":[`
		fmt.Fprintf(w, start, c.Kind, c.GroupVersion(), found.version, found.next)
		for i, each := range found.objects {
			if i > 0 {
				_, _ = io.WriteString(w, ",")
			}
			_, _ = w.Write(each.inJSON())
		}
		_, _ = io.WriteString(w, "]}")
		return
	}
	list, err := scheme.Scheme.New(c.GroupVersion().WithKind(c.Kind + "List"))
	if err == nil {
		items := make([]runtime.Object, len(found.objects))
		for i, each := range found.objects {
			items[i] = each.object
		}
		err = meta.SetList(list, items)
	}
	if err != nil {
		fail(w, r, err)
		return
	}
	list.(metav1.ListInterface).SetResourceVersion(strconv.FormatInt(found.version, 10))
	list.(metav1.ListInterface).SetContinue(found.next)
	list.GetObjectKind().SetGroupVersionKind(c.GroupVersion().WithKind(c.Kind + "List"))
	write(w, http.StatusOK, protoType, proto(list))
}

func (s *server) replace(c *collection, t target, changed decodable) (*snapshot, error) {
	return c.update(t.namespace, t.name, func(old *snapshot, version int64) (*snapshot, error) {
		if old == nil {
			return nil, notFound(c, t.name)
		}
		if v := changed.GetResourceVersion(); v != "" && v != old.GetResourceVersion() {
			return nil, apierrors.NewConflict(schema.GroupResource{Resource: c.plural}, t.name, errors.New("the object has been modified"))
		}
		changed.SetUID(old.GetUID())
		return c.snapshotOf(changed, version), nil
	})
}

// patch merges JSON as the content type says: by the rules of the type (strategic), or by RFC 7386.
func (s *server) patch(c *collection, t target, r *http.Request) (*snapshot, error) {
	patch, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	return c.update(t.namespace, t.name, func(old *snapshot, version int64) (*snapshot, error) {
		if old == nil {
			return nil, notFound(c, t.name)
		}
		changed := c.empty()
		var merged []byte
		if strings.Contains(r.Header.Get("Content-Type"), "strategic") {
			merged, err = strategicpatch.StrategicMergePatch(old.inJSON(), patch, changed)
		} else {
			merged, err = jsonpatch.MergePatch(old.inJSON(), patch)
		}
		if err == nil {
			err = json.Unmarshal(merged, changed)
		}
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return c.snapshotOf(changed, version), nil
	})
}

// event counts an event, and answers with what was sent.
func (s *server) event(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		fail(w, r, err)
		return
	}
	if r.Method == http.MethodPost {
		s.measures.written(body)
	}
	contentType := jsonType
	if strings.Contains(r.Header.Get("Content-Type"), "protobuf") {
		contentType = protoType
	}
	write(w, http.StatusCreated, contentType, body)
}

func (s *server) discover(w http.ResponseWriter, root string) {
	found := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	for _, k := range kinds {
		if k.root() == root {
			found.GroupVersion = k.GroupVersion().String()
			found.APIResources = append(found.APIResources, metav1.APIResource{Name: k.plural, Kind: k.Kind, Namespaced: k.namespaced})
		}
	}
	writeJSON(w, http.StatusOK, found)
}

func notFound(c *collection, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: c.Group, Resource: c.plural}, name)
}

func fail(w http.ResponseWriter, r *http.Request, err error) {
	var known *apierrors.StatusError
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	writeJSON(w, int(status.Code), status)
}

var (
	success        = &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Code: http.StatusCreated}
	successInProto = proto(success)
	successInJSON  = []byte(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}`)
)

func writeStatus(w http.ResponseWriter, r *http.Request, status int) {
	if acceptsProto(r) {
		write(w, status, protoType, successInProto)
	} else {
		write(w, status, jsonType, successInJSON)
	}
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	b, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	write(w, status, jsonType, b)
}

func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

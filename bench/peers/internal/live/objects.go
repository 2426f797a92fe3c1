package live

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
)

// decodable is an object that protobuf can be read into.
type decodable interface {
	object
	Unmarshal([]byte) error
}

func (c *collection) empty() decodable {
	o, err := scheme.Scheme.New(c.GroupVersionKind)
	if err != nil {
		panic(err)
	}
	return o.(decodable)
}

func (c *collection) snapshotOf(o object, version int64) *snapshot {
	o.GetObjectKind().SetGroupVersionKind(c.GroupVersionKind)
	o.SetResourceVersion(strconv.FormatInt(version, 10))
	return newSnapshot(o, version)
}

// changeAll creates or deletes the objects of a JSON array, which may be of any kind.
func (s *server) changeAll(w http.ResponseWriter, r *http.Request) {
	var items []json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&items); err != nil {
		fail(w, r, apierrors.NewBadRequest(err.Error()))
		return
	}
	for i, item := range items {
		if err := s.change(item, r.Method == http.MethodDelete); err != nil {
			fail(w, r, apierrors.NewBadRequest(fmt.Sprintf("object %d: %v", i, err)))
			return
		}
	}
	writeStatus(w, r, http.StatusCreated)
}

func (s *server) change(item []byte, deletes bool) error {
	var typed metav1.TypeMeta
	if err := json.Unmarshal(item, &typed); err != nil {
		return err
	}
	c := s.byKind[typed.GroupVersionKind()]
	if c == nil {
		return fmt.Errorf("kind %s is not known", typed.GroupVersionKind())
	}
	o := c.empty()
	if err := json.Unmarshal(item, o); err != nil {
		return err
	}
	var err error
	if deletes {
		_, err = c.remove(o.GetNamespace(), o.GetName())
	} else {
		_, err = s.create(c, o)
	}
	return err
}

// create completes an object as the API server does, and adds it.
func (s *server) create(c *collection, o object) (*snapshot, error) {
	legacyscheme.Scheme.Default(o)
	o.SetCreationTimestamp(metav1.Now())
	pod, isPod := o.(*v1.Pod)
	if isPod {
		if err := s.admit(pod); err != nil {
			return nil, err
		}
	}
	return c.update(o.GetNamespace(), o.GetName(), func(old *snapshot, version int64) (*snapshot, error) {
		if old != nil {
			return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: c.plural}, o.GetName())
		}
		if o.GetUID() == "" {
			o.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", version)))
		}
		now := c.snapshotOf(o, version)
		if isPod && pod.Spec.NodeName == "" {
			now.bound = boundJSON(pod)
			s.measures.created(pod.UID, time.Now())
		}
		return now, nil
	})
}

// admit does what the default admission plugins Priority and DefaultTolerationSeconds do.
func (s *server) admit(pod *v1.Pod) error {
	if name := pod.Spec.PriorityClassName; name != "" {
		class := s.byKind[of("scheduling.k8s.io", "PriorityClass")].get("", name)
		if class == nil {
			return fmt.Errorf("pod %s: there is no PriorityClass %s", pod.Name, name)
		}
		pod.Spec.Priority = &class.object.(*schedulingv1.PriorityClass).Value
	} else {
		pod.Spec.Priority = new(int32)
	}
	lower := v1.PreemptLowerPriority
	pod.Spec.PreemptionPolicy = &lower
	for _, taint := range []string{v1.TaintNodeNotReady, v1.TaintNodeUnreachable} {
		seconds := int64(300)
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{Key: taint, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: &seconds})
	}
	pod.Status.Phase = v1.PodPending
	return nil
}

// bind gives a pod its node, unless it has one.
func (s *server) bind(c *collection, t target, r *http.Request) error {
	var binding v1.Binding
	if err := decode(r, &binding); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	_, err := c.update(t.namespace, t.name, func(old *snapshot, version int64) (*snapshot, error) {
		if old == nil {
			return nil, notFound(c, t.name)
		}
		conflict := func(format string, args ...any) error {
			return apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, t.name, fmt.Errorf(format, args...))
		}
		if node := old.object.(*v1.Pod).Spec.NodeName; node != "" {
			return nil, conflict("pod is already assigned to node %q", node)
		}
		if binding.UID != "" && binding.UID != old.GetUID() {
			return nil, conflict("the binding is for the pod of uid %s", binding.UID)
		}
		s.measures.bound(old.GetUID(), time.Now())
		return boundSnapshot(old, binding.Target.Name, version), nil
	})
	return err
}

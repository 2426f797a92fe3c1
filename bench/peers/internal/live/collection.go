package live

import (
	"sort"
	"strconv"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// keptChanges is how many changes of a kind are kept for watches that begin or read late. Older ones are 410 Gone.
const keptChanges = 200_000

// change is an event that watches are to see.
type change struct {
	event       string // ADDED, MODIFIED or DELETED
	before, now *snapshot
	inJSON      func() []byte
	inProto     func() []byte
}

func newChange(event string, before, now *snapshot) *change {
	return &change{
		event: event, before: before, now: now,
		inJSON:  sync.OnceValue(func() []byte { return jsonFrame(event, now.inJSON()) }),
		inProto: sync.OnceValue(func() []byte { return protoFrame(event, now.inProto()) }),
	}
}

// frame is the event as the watch of a selector sees it: an object may come into its selection, or leave it. Empty if
// it was and is outside.
func (c *change) frame(selector fields.Selector, asProto bool) []byte {
	event := c.event
	if !selector.Empty() {
		was := c.before != nil && selector.Matches(fieldsOf(c.before.object))
		is := event != "DELETED" && selector.Matches(fieldsOf(c.now.object))
		switch {
		case was && is:
			event = "MODIFIED"
		case is:
			event = "ADDED"
		case was:
			event = "DELETED"
		default:
			return nil
		}
	}
	switch {
	case asProto && event == c.event:
		return c.inProto()
	case asProto:
		return protoFrame(event, c.now.inProto())
	case event == c.event:
		return c.inJSON()
	default:
		return jsonFrame(event, c.now.inJSON())
	}
}

func fieldsOf(o object) fields.Set {
	set := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
	if pod, ok := o.(*v1.Pod); ok {
		set["spec.nodeName"] = pod.Spec.NodeName
		set["spec.schedulerName"] = pod.Spec.SchedulerName
		set["status.phase"] = string(pod.Status.Phase)
	}
	return set
}

// collection has all objects of a kind, and the changes that watches follow.
type collection struct {
	kind
	versions *atomic.Int64 // of all kinds

	mu      sync.Mutex
	changed *sync.Cond
	objects map[string]*snapshot // by namespace/name
	changes []*change
	dropped int64 // the version of the last change that is no longer kept
}

func newCollection(k kind, versions *atomic.Int64) *collection {
	c := &collection{kind: k, versions: versions, objects: map[string]*snapshot{}}
	c.changed = sync.NewCond(&c.mu)
	return c
}

func key(namespace, name string) string { return namespace + "/" + name }

func (c *collection) get(namespace, name string) *snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.objects[key(namespace, name)]
}

// update replaces an object by what `next` makes of it, under the collection's lock. `next` gets nil if there is none;
// it returns nil to delete the object, and an error to leave it as it is.
func (c *collection) update(namespace, name string, next func(old *snapshot, version int64) (*snapshot, error)) (*snapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := key(namespace, name)
	old := c.objects[k]
	version := c.versions.Add(1)
	now, err := next(old, version)
	switch {
	case err != nil:
		return nil, err
	case now == nil && old == nil:
		return nil, nil
	case now == nil:
		delete(c.objects, k)
		gone := old.object.DeepCopyObject().(object)
		gone.SetResourceVersion(strconv.FormatInt(version, 10))
		now = newSnapshot(gone, version)
		c.changes = append(c.changes, newChange("DELETED", old, now))
	case old == nil:
		c.objects[k] = now
		c.changes = append(c.changes, newChange("ADDED", nil, now))
	default:
		c.objects[k] = now
		c.changes = append(c.changes, newChange("MODIFIED", old, now))
	}
	if len(c.changes) > 2*keptChanges {
		c.dropped = c.changes[keptChanges-1].now.version
		c.changes = append([]*change(nil), c.changes[keptChanges:]...)
	}
	c.changed.Broadcast()
	return now, nil
}

// remove deletes an object. Nil if there is none.
func (c *collection) remove(namespace, name string) (*snapshot, error) {
	return c.update(namespace, name, func(*snapshot, int64) (*snapshot, error) { return nil, nil })
}

// list returns the objects of a namespace (all if empty) that a selector matches, by name, and the version as of which.
func (c *collection) list(namespace string, selector fields.Selector) ([]*snapshot, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*snapshot
	for _, s := range c.objects {
		if (namespace == "" || namespace == s.GetNamespace()) && (selector.Empty() || selector.Matches(fieldsOf(s.object))) {
			found = append(found, s)
		}
	}
	sort.Slice(found, func(i, j int) bool {
		return key(found[i].GetNamespace(), found[i].GetName()) < key(found[j].GetNamespace(), found[j].GetName())
	})
	return found, c.versions.Load()
}

// after waits for changes after a version, and returns them: none if `isOver` says so first, which is asked whenever the
// collection is woken. False if some of them are no longer kept.
func (c *collection) after(version int64, isOver func() bool) ([]*change, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		first := sort.Search(len(c.changes), func(i int) bool { return c.changes[i].now.version > version })
		switch {
		case version < c.dropped:
			return nil, false
		case first < len(c.changes):
			return c.changes[first:len(c.changes):len(c.changes)], true
		case isOver():
			return nil, true
		}
		c.changed.Wait()
	}
}

// wake makes each waiting watch look at its clock.
func (c *collection) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed.Broadcast()
}

package live

import (
	"bytes"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// measures is when pods were created and bound, and what else was written.
type measures struct {
	mu          sync.Mutex
	firstWrite  time.Time
	createdAt   map[types.UID]time.Time
	boundAt     map[types.UID]time.Time
	lastBinding time.Time
	events      int // that a pod is bound
	lastEvent   time.Time
	otherEvents int
}

func (m *measures) created(uid types.UID, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.createdAt == nil {
		m.createdAt, m.boundAt = map[types.UID]time.Time{}, map[types.UID]time.Time{}
	}
	m.createdAt[uid] = at
}

// wrote notes a write of a scheduler.
func (m *measures) wrote(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.write(at)
}

func (m *measures) write(at time.Time) {
	if m.firstWrite.IsZero() {
		m.firstWrite = at
	}
}

func (m *measures) bound(uid types.UID, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.write(at)
	m.lastBinding = at
	m.boundAt[uid] = at
}

func (m *measures) written(event []byte) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.write(now)
	if bytes.Contains(event, []byte("Scheduled")) { // not so FailedScheduling, Preempted
		m.events++
		m.lastEvent = now
	} else {
		m.otherEvents++
	}
}

// report is what GET /stub/measures answers. Times are in seconds of the epoch, 0 if there was none yet.
type report struct {
	FirstWrite  float64 `json:"first_write"`
	Bound       int     `json:"bound"`
	LastBinding float64 `json:"last_binding"`
	Events      int     `json:"events"`
	LastEvent   float64 `json:"last_event"`
	OtherEvents int     `json:"other_events"`
}

func (m *measures) report() report {
	m.mu.Lock()
	defer m.mu.Unlock()
	return report{
		FirstWrite:  seconds(m.firstWrite),
		Bound:       len(m.boundAt),
		LastBinding: seconds(m.lastBinding),
		Events:      m.events,
		LastEvent:   seconds(m.lastEvent),
		OtherEvents: m.otherEvents,
	}
}

// podTimes is when a pod was created and bound, in seconds of the epoch.
type podTimes struct {
	CreatedAt float64 `json:"created_at"`
	BoundAt   float64 `json:"bound_at"`
}

func (m *measures) boundPods() []podTimes {
	m.mu.Lock()
	defer m.mu.Unlock()
	pods := []podTimes{}
	for uid, at := range m.boundAt {
		pods = append(pods, podTimes{seconds(m.createdAt[uid]), seconds(at)})
	}
	return pods
}

func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMicro()) / 1e6
}

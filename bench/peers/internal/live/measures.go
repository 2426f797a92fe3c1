package live

import (
	"bytes"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"peers/internal/stats"
)

// measures is when pods were created and bound, and how many events were written about that.
type measures struct {
	mu          sync.Mutex
	createdAt   map[types.UID]time.Time
	boundAt     map[types.UID]time.Time
	first, last time.Time // bindings
	events      int       // that a pod is bound
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

func (m *measures) bound(uid types.UID, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.first.IsZero() {
		m.first = at
	}
	m.last = at
	m.boundAt[uid] = at
}

func (m *measures) written(event []byte) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if bytes.Contains(event, []byte("Scheduled")) { // not so FailedScheduling, Preempted
		m.events++
		m.lastEvent = now
	} else {
		m.otherEvents++
	}
}

// report is what GET /stub/measures answers. Times are in seconds of the epoch, 0 if there was none yet.
type report struct {
	Bound        int     `json:"bound"`
	FirstBinding float64 `json:"first_binding"`
	LastBinding  float64 `json:"last_binding"`
	Events       int     `json:"events"`
	LastEvent    float64 `json:"last_event"`
	OtherEvents  int     `json:"other_events"`
}

func (m *measures) report() report {
	m.mu.Lock()
	defer m.mu.Unlock()
	return report{len(m.boundAt), seconds(m.first), seconds(m.last), m.events, seconds(m.lastEvent), m.otherEvents}
}

func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMicro()) / 1e6
}

// waits is how many milliseconds each pod waited for its binding: since its creation, or if the scheduler began later,
// since the first binding.
func (m *measures) waits() []float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	waits := []float64{}
	for uid, at := range m.boundAt {
		since := m.createdAt[uid]
		if since.Before(m.first) {
			since = m.first
		}
		waits = append(waits, stats.Ms(at.Sub(since)))
	}
	return waits
}

package live

import (
	"net/url"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// pages cuts lists into pages of the limit that a client asks for, and keeps what is left of them.
type pages struct {
	mu    sync.Mutex
	count int
	left  map[string]page // by the token that asks for it
}

// page has objects as of a version, and the token of the next page: empty if it is the last.
type page struct {
	objects []*snapshot
	version int64
	next    string
}

// read returns the page that a request asks for. As the watch cache of the API server does, it answers a request for
// version 0 whole.
func (p *pages) read(q url.Values, list func() ([]*snapshot, int64)) (page, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var asked page
	if token := q.Get("continue"); token != "" {
		left, known := p.left[token]
		if !known {
			return page{}, apierrors.NewResourceExpired("the continue token is not known")
		}
		delete(p.left, token)
		asked = left
	} else {
		asked.objects, asked.version = list()
	}
	limit, _ := strconv.Atoi(q.Get("limit"))
	if limit <= 0 || q.Get("resourceVersion") == "0" || len(asked.objects) <= limit {
		return asked, nil
	}
	p.count++
	token := strconv.Itoa(p.count)
	p.left[token] = page{objects: asked.objects[limit:], version: asked.version}
	return page{asked.objects[:limit], asked.version, token}, nil
}

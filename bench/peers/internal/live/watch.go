package live

import (
	"context"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// longestWatch ends a watch that names no time itself.
const longestWatch = 30 * time.Minute

// serveWatch sends the changes after a version (without one: all objects first) until the watch's time is over. It ends
// with a bookmark, if the client wants any.
func serveWatch(w http.ResponseWriter, r *http.Request, c *collection, selector fields.Selector) {
	q := r.URL.Query()
	asProto := acceptsProto(r)
	length := longestWatch
	if seconds, err := strconv.Atoi(q.Get("timeoutSeconds")); err == nil {
		length = time.Duration(seconds) * time.Second
	}
	ctx, cancel := context.WithTimeout(r.Context(), length)
	defer cancel()
	defer context.AfterFunc(ctx, c.wake)()
	isOver := func() bool { return ctx.Err() != nil }

	if asProto {
		w.Header().Set("Content-Type", protoType+";stream=watch")
	} else {
		w.Header().Set("Content-Type", jsonType)
	}
	flush := w.(http.Flusher).Flush
	version, _ := strconv.ParseInt(q.Get("resourceVersion"), 10, 64)
	if version == 0 {
		found, now := c.list("", selector)
		for _, each := range found {
			_, _ = w.Write(newChange("ADDED", nil, each).frame(fields.Everything(), asProto))
		}
		version = now
	}
	flush()
	for !isOver() {
		changes, ok := c.after(version, isOver)
		if !ok {
			expired := &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonExpired, Code: http.StatusGone}
			if asProto {
				_, _ = w.Write(protoFrame("ERROR", proto(expired)))
			} else {
				_, _ = w.Write(jsonFrame("ERROR", []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`)))
			}
			return
		}
		for _, each := range changes {
			if frame := each.frame(selector, asProto); frame != nil {
				if _, err := w.Write(frame); err != nil {
					return
				}
			}
			version = each.now.version
		}
		flush()
	}
	if q.Get("allowWatchBookmarks") == "true" && r.Context().Err() == nil {
		bookmark := c.empty()
		_, _ = w.Write(newChange("BOOKMARK", nil, c.snapshotOf(bookmark, version)).frame(fields.Everything(), asProto))
	}
}

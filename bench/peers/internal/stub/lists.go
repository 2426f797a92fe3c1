package stub

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// listVersion is the resource version of every list; events come after it.
const listVersion = 1000000

// jsonList is a list as bytes that any part of it can be cut from.
type jsonList struct {
	kind, apiVersion string
	items            []byte // joined by commas
	ends             []int  // where each item ends
}

func newJSONList(list runtime.Object) (*jsonList, error) {
	kind := list.GetObjectKind().GroupVersionKind()
	l := &jsonList{kind: kind.Kind, apiVersion: kind.GroupVersion().String()}
	err := meta.EachListItem(list, func(o runtime.Object) error {
		b, err := json.Marshal(o)
		if len(l.items) > 0 {
			l.items = append(l.items, ',')
		}
		l.items = append(l.items, b...)
		l.ends = append(l.ends, len(l.items))
		return err
	})
	return l, err
}

// write answers as the API server does: in pages of the limit, unless version 0 is asked for, whereupon its watch
// cache sends everything.
func (l *jsonList) write(w io.Writer, q url.Values) {
	first, _ := strconv.Atoi(q.Get("continue"))
	last := len(l.ends)
	next := ""
	if limit, _ := strconv.Atoi(q.Get("limit")); limit > 0 && q.Get("resourceVersion") != "0" && first+limit < last {
		last = first + limit
		next = fmt.Sprintf(`,"continue":"%d","remainingItemCount":%d`, last, len(l.ends)-last)
	}
	fmt.Fprintf(w, `{"kind":"%s","apiVersion":"%s","metadata":{"resourceVersion":"%d"%s},"items":[`, l.kind, l.apiVersion, listVersion, next)
	if last > first {
		begin := 0
		if first > 0 {
			begin = l.ends[first-1] + 1
		}
		_, _ = w.Write(l.items[begin:l.ends[last-1]])
	}
	_, _ = io.WriteString(w, "]}")
}

package live

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

const (
	jsonType  = "application/json"
	protoType = "application/vnd.kubernetes.protobuf"
)

var (
	protoMagic      = []byte("k8s\x00")
	protoSerializer = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
)

// object is any of Kubernetes' own types.
type object interface {
	runtime.Object
	metav1.Object
}

// snapshot is an object at one version. It does not change, and is encoded at most once in each format.
type snapshot struct {
	object
	version int64
	inJSON  func() []byte
	inProto func() []byte
	// The JSON of a pod, once it is bound, around its version and the name of its node.
	bound [][]byte
}

func newSnapshot(o object, version int64) *snapshot {
	return &snapshot{
		object:  o,
		version: version,
		inJSON: sync.OnceValue(func() []byte {
			b, err := json.Marshal(o)
			if err != nil {
				panic(err)
			}
			return b
		}),
		inProto: sync.OnceValue(func() []byte { return proto(o) }),
	}
}

// proto encodes as the API server does for a client that accepts protobuf.
func proto(o runtime.Object) []byte {
	var b bytes.Buffer
	if err := protoSerializer.Encode(o, &b); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// Texts that no pod has: boundJSON cuts the JSON at them.
const (
	versionMark = "@version@"
	nodeMark    = "@node@"
)

// boundJSON prepares the JSON that a pod has once it is bound. So a binding encodes nothing.
func boundJSON(pod *v1.Pod) [][]byte {
	bound := boundPod(pod, nodeMark, versionMark)
	b, err := json.Marshal(bound)
	if err != nil {
		panic(err)
	}
	before, after, _ := bytes.Cut(b, []byte(versionMark))
	middle, after, _ := bytes.Cut(after, []byte(nodeMark))
	return [][]byte{before, middle, after}
}

// boundSnapshot is the pod after its binding.
func boundSnapshot(old *snapshot, node string, version int64) *snapshot {
	text := strconv.FormatInt(version, 10)
	now := newSnapshot(boundPod(old.object.(*v1.Pod), node, text), version)
	if pieces := old.bound; pieces != nil {
		now.inJSON = func() []byte {
			return bytes.Join([][]byte{pieces[0], []byte(text), pieces[1], []byte(node), pieces[2]}, nil)
		}
	}
	return now
}

func boundPod(pod *v1.Pod, node, version string) *v1.Pod {
	bound := *pod
	bound.ResourceVersion = version
	bound.Spec.NodeName = node
	bound.Status.Conditions = nil
	for _, c := range pod.Status.Conditions {
		if c.Type != v1.PodScheduled {
			bound.Status.Conditions = append(bound.Status.Conditions, c)
		}
	}
	scheduled := v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.Now()}
	bound.Status.Conditions = append(bound.Status.Conditions, scheduled)
	return &bound
}

// jsonFrame is an event of a watch in JSON.
func jsonFrame(event string, o []byte) []byte {
	return bytes.Join([][]byte{[]byte(`{"type":"`), []byte(event), []byte(`","object":`), o, []byte("}\n")}, nil)
}

// protoFrame is an event of a watch in protobuf: its length in four bytes, then a WatchEvent.
func protoFrame(event string, o []byte) []byte {
	watchEvent := metav1.WatchEvent{Type: event, Object: runtime.RawExtension{Raw: o}}
	b, err := watchEvent.Marshal()
	if err != nil {
		panic(err)
	}
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(b)), uint32(len(b))), b...)
}

func acceptsProto(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "protobuf") }

// decode reads the body of a request into an object, from JSON or protobuf.
func decode(r *http.Request, into interface{ Unmarshal([]byte) error }) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(body, protoMagic) {
		return json.Unmarshal(body, into)
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(body[len(protoMagic):]); err != nil {
		return err
	}
	return into.Unmarshal(unknown.Raw)
}

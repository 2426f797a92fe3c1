package live

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind is one kind of objects that the server keeps.
type kind struct {
	schema.GroupVersionKind
	plural     string
	namespaced bool
}

// kinds are those that kube-scheduler and its like read or write, except events, which nobody reads.
var kinds = []kind{
	{core("Namespace"), "namespaces", false},
	{core("Node"), "nodes", false},
	{core("PersistentVolume"), "persistentvolumes", false},
	{core("PersistentVolumeClaim"), "persistentvolumeclaims", true},
	{core("Pod"), "pods", true},
	{core("ReplicationController"), "replicationcontrollers", true},
	{core("Service"), "services", true},
	{of("apps", "ReplicaSet"), "replicasets", true},
	{of("apps", "StatefulSet"), "statefulsets", true},
	{of("coordination.k8s.io", "Lease"), "leases", true},
	{of("policy", "PodDisruptionBudget"), "poddisruptionbudgets", true},
	{of("scheduling.k8s.io", "PriorityClass"), "priorityclasses", false},
	{of("storage.k8s.io", "CSIDriver"), "csidrivers", false},
	{of("storage.k8s.io", "CSINode"), "csinodes", false},
	{of("storage.k8s.io", "CSIStorageCapacity"), "csistoragecapacities", true},
	{of("storage.k8s.io", "StorageClass"), "storageclasses", false},
	{of("storage.k8s.io", "VolumeAttachment"), "volumeattachments", false},
}

func core(name string) schema.GroupVersionKind { return of("", name) }

func of(group, name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: "v1", Kind: name}
}

// root is the path of the kind's group and version.
func (k kind) root() string {
	if k.Group == "" {
		return "/api/" + k.Version
	}
	return "/apis/" + k.Group + "/" + k.Version
}

// target is what the path of a request names. The kind of a collection is known by root and plural.
type target struct {
	root, plural, namespace, name, subresource string
}

// targetOf reads a path such as /api/v1/namespaces/default/pods/a/binding; false if it is no path of the API.
func targetOf(path string) (target, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	depth := 2 // api, v1
	if parts[0] == "apis" {
		depth = 3 // apis, GROUP, v1
	} else if parts[0] != "api" {
		return target{}, false
	}
	if len(parts) < depth {
		return target{}, false
	}
	t := target{root: "/" + strings.Join(parts[:depth], "/")}
	parts = parts[depth:]
	if len(parts) > 2 && parts[0] == "namespaces" {
		t.namespace, parts = parts[1], parts[2:]
	}
	for i, into := range []*string{&t.plural, &t.name, &t.subresource} {
		if i < len(parts) {
			*into = parts[i]
		}
	}
	return t, true
}

//go:build !before_1_37

package fwk

import "k8s.io/kube-scheduler/framework"

// SnapshotLister is what a lister of nodes embeds.
type SnapshotLister = framework.MutableSnapshotSharedLister

func HasWideAntiAffinity(info NodeInfo) bool {
	return len(info.GetPodsWithRequiredNonHostScopedAntiAffinity()) > 0
}

//go:build before_1_37

package fwk

// SnapshotLister is what a lister of nodes embeds.
type SnapshotLister = SharedLister

// HasWideAntiAffinity is asked for by later releases only.
func HasWideAntiAffinity(NodeInfo) bool { return false }

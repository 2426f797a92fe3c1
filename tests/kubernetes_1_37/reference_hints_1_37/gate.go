//go:build !before_1_34

package main

// turnHints does nothing: hints are always on.
func turnHints(bool) error { return nil }

//go:build !before_1_36

package main

import "k8s.io/client-go/tools/cache"

func (i *staticInformer) HasSyncedChecker() cache.DoneChecker { return synced{} }

// synced is the checker of what is always synced.
type synced struct{}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (synced) Name() string          { return "static informer" }
func (synced) Done() <-chan struct{} { return closed }

//go:build !before_1_33

package main

import "k8s.io/client-go/tools/cache"

func (i *staticInformer) AddEventHandlerWithOptions(
	handler cache.ResourceEventHandler,
	_ cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

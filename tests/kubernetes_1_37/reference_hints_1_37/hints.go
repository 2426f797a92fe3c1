package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"extender-service/tests/kubernetes_1_37/internal/fwk"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	frameworkplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// metricsRecorder is shared: one of its own would leave every case's framework
// with a goroutine that outlives it.
var metricsRecorder = metrics.NewMetricsAsyncRecorder(1000, time.Second, make(chan struct{}))

// hintsOf builds the first profile of a configuration, as of the feature gates
// now, and returns its map of hints. The objects are those that plugins list.
func hintsOf(ctx context.Context, rawConfig []byte, rawObjects []json.RawMessage) (queue.QueueingHintMap, error) {
	config, err := loadConfig(rawConfig)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	factory := informers.NewSharedInformerFactory(nil, 0)
	for i, raw := range rawObjects {
		obj, err := decode(raw)
		if err == nil {
			err = store(factory, obj)
		}
		if err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
	}
	devices, err := deviceOptions(ctx, factory)
	if err != nil {
		return nil, err
	}
	options := slices.Concat(devices, laterOptions(factory), []frameworkruntime.Option{
		frameworkruntime.WithComponentConfigVersion(config.TypeMeta.APIVersion),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(noNodes{}),
		frameworkruntime.WithMetricsRecorder(metricsRecorder),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
	})
	made, err := frameworkruntime.NewFramework(ctx, frameworkplugins.NewInTreeRegistry(), &config.Profiles[0], options...)
	if err != nil {
		return nil, err
	}
	return mapOf(ctx, made)
}

func loadConfig(raw []byte) (*schedulerapi.KubeSchedulerConfiguration, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return latest.Default()
	}
	obj, gvk, err := configscheme.Codecs.UniversalDecoder().Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	config, ok := obj.(*schedulerapi.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("unexpected kind %s", gvk)
	}
	config.TypeMeta.APIVersion = gvk.GroupVersion().String()
	return config, validation.ValidateKubeSchedulerConfiguration(config)
}

// store adds an object to the informer of its kind, which never runs.
func store(factory informers.SharedInformerFactory, obj interface{}) error {
	switch obj.(type) {
	case *v1.Service:
		return factory.Core().V1().Services().Informer().GetIndexer().Add(obj)
	case *v1.ReplicationController:
		return factory.Core().V1().ReplicationControllers().Informer().GetIndexer().Add(obj)
	case *appsv1.ReplicaSet:
		return factory.Apps().V1().ReplicaSets().Informer().GetIndexer().Add(obj)
	case *appsv1.StatefulSet:
		return factory.Apps().V1().StatefulSets().Informer().GetIndexer().Add(obj)
	}
	return fmt.Errorf("unexpected kind %T", obj)
}

// noNodes is a snapshot that no hint looks at.
type noNodes struct {
	fwk.SharedLister
}

func (noNodes) NodeInfos() fwk.NodeInfoLister { return nil }

func (noNodes) StorageInfos() fwk.StorageInfoLister { return nil }

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sort"

	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"sigs.k8s.io/yaml"
)

// accepted is what kube-scheduler makes of a valid configuration.
type accepted struct {
	testCase
	// Written is what --write-config-to would write.
	Written map[string]any `json:"written"`
	// Effective holds [name, weight] by extension point by scheduler name.
	Effective map[string]map[string][][2]any `json:"effective"`
}

// rejected is why kube-scheduler refuses a configuration.
type rejected struct {
	testCase
	// Stage is decode, validate or start.
	Stage  string  `json:"stage"`
	Errors []fault `json:"errors"`
}

// fault is a field error, or another one without a path.
type fault struct {
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
}

// judge does with a configuration what kube-scheduler does when it starts.
func judge(ctx context.Context, item testCase) (*accepted, *rejected) {
	setGate(item.VolumeCapacityPriority)
	defer setGate(false)

	cfg, err := decode([]byte(item.Config))
	if err != nil {
		return nil, &rejected{item, "decode", faults(err)}
	}
	if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		return nil, &rejected{item, "validate", faults(err)}
	}
	profiles, sched, err := start(ctx, cfg)
	if err != nil {
		return nil, &rejected{item, "start", faults(err)}
	}
	cfg.Profiles = profiles
	written, err := encode(cfg)
	if err != nil {
		panic(err)
	}
	effective := map[string]map[string][][2]any{}
	for name, profile := range sched.Profiles {
		effective[name] = byPoint(profile.ListPlugins())
	}
	return &accepted{item, written, effective}, nil
}

// without leaves out what is as in the defaults: fields of the file, extension points of the default profile.
func (a *accepted) without(defaults *accepted) *accepted {
	for name, value := range defaults.Written {
		if reflect.DeepEqual(a.Written[name], value) {
			delete(a.Written, name)
		}
	}
	for _, points := range a.Effective {
		for point, plugins := range defaults.Effective["default-scheduler"] {
			if reflect.DeepEqual(points[point], plugins) {
				delete(points, point)
			} else if points[point] == nil {
				points[point] = [][2]any{}
			}
		}
	}
	return a
}

func setGate(on bool) {
	gates := map[string]bool{string(features.VolumeCapacityPriority): on}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		panic(err)
	}
}

func decode(text []byte) (*config.KubeSchedulerConfiguration, error) {
	obj, gvk, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	cfg, ok := obj.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("couldn't decode as KubeSchedulerConfiguration, got %s: ", gvk)
	}
	cfg.TypeMeta.APIVersion = gvk.GroupVersion().String()
	return cfg, nil
}

// start builds the scheduler and gives its completed profiles.
func start(ctx context.Context, cfg *config.KubeSchedulerConfiguration) (
	profiles []config.KubeSchedulerProfile, sched *scheduler.Scheduler, err error,
) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	client := fake.NewSimpleClientset()
	sched, err = scheduler.New(ctx,
		client,
		informers.NewSharedInformerFactory(client, 0),
		nil,
		func(string) events.EventRecorder { return nil },
		scheduler.WithComponentConfigVersion(cfg.TypeMeta.APIVersion),
		scheduler.WithProfiles(cfg.Profiles...),
		scheduler.WithPercentageOfNodesToScore(cfg.PercentageOfNodesToScore),
		scheduler.WithFrameworkOutOfTreeRegistry(examples()),
		scheduler.WithPodMaxBackoffSeconds(cfg.PodMaxBackoffSeconds),
		scheduler.WithPodInitialBackoffSeconds(cfg.PodInitialBackoffSeconds),
		scheduler.WithExtenders(cfg.Extenders...),
		scheduler.WithParallelism(cfg.Parallelism),
		scheduler.WithBuildFrameworkCapturer(func(profile config.KubeSchedulerProfile) {
			profiles = append(profiles, profile)
		}),
	)
	return profiles, sched, err
}

func encode(cfg *config.KubeSchedulerConfiguration) (map[string]any, error) {
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeYAML)
	encoder := scheme.Codecs.EncoderForVersion(info.Serializer, configv1.SchemeGroupVersion)
	var buffer bytes.Buffer
	if err := encoder.Encode(cfg, &buffer); err != nil {
		return nil, err
	}
	var written map[string]any
	err := yaml.Unmarshal(buffer.Bytes(), &written)
	return written, err
}

func faults(err error) []fault {
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		return each(strict.Errors())
	}
	var aggregate utilerrors.Aggregate
	if errors.As(err, &aggregate) {
		return each(aggregate.Errors())
	}
	return each([]error{err})
}

// message is the text after the path, with … for a value that would be printed as a Go expression.
func message(err *field.Error) string {
	switch err.BadValue.(type) {
	case int, int32, int64, bool, string, []string:
		return err.ErrorBody()
	}
	simple := *err
	simple.BadValue = ellipsis{}
	return simple.ErrorBody()
}

type ellipsis struct{}

func (ellipsis) String() string { return "…" }

func each(errs []error) []fault {
	var all []fault
	for _, err := range errs {
		if invalid, ok := err.(*field.Error); ok {
			all = append(all, fault{invalid.Field, message(invalid)})
		} else {
			all = append(all, fault{"", err.Error()})
		}
	}
	// Some rules are checked in the random order of a map.
	sort.Slice(all, func(i, j int) bool { return all[i].Path+all[i].Message < all[j].Path+all[j].Message })
	return all
}

//go:build before_1_35 && !before_1_34

// Package fwk has the scheduler framework's types under one name for all releases, which moved them between packages.
package fwk

import (
	moved "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

type (
	CycleState        = moved.CycleState
	FilterPlugin      = framework.FilterPlugin
	Handle            = framework.Handle
	ImageStateSummary = moved.ImageStateSummary
	NodeInfo          = moved.NodeInfo
	NodeInfoLister    = framework.NodeInfoLister
	NominatingInfo    = framework.NominatingInfo
	Plugin            = framework.Plugin
	PodInfo           = moved.PodInfo
	PodNominator      = framework.PodNominator
	PostFilterResult  = framework.PostFilterResult
	ScorePlugin       = framework.ScorePlugin
	SharedLister      = framework.SharedLister
	Status            = moved.Status
	StorageInfoLister = framework.StorageInfoLister
)

const (
	Error                        = moved.Error
	Unschedulable                = moved.Unschedulable
	UnschedulableAndUnresolvable = moved.UnschedulableAndUnresolvable
)

var NewStatus = moved.NewStatus

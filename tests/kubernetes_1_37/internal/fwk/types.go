//go:build !before_1_35

// Package fwk has the scheduler framework's types under one name for all releases, which moved them between packages.
package fwk

import "k8s.io/kube-scheduler/framework"

type (
	CycleState        = framework.CycleState
	FilterPlugin      = framework.FilterPlugin
	Handle            = framework.Handle
	ImageStateSummary = framework.ImageStateSummary
	NodeInfo          = framework.NodeInfo
	NodeInfoLister    = framework.NodeInfoLister
	NominatingInfo    = framework.NominatingInfo
	Plugin            = framework.Plugin
	PodInfo           = framework.PodInfo
	PodNominator      = framework.PodNominator
	PostFilterResult  = framework.PostFilterResult
	ScorePlugin       = framework.ScorePlugin
	SharedLister      = framework.SharedLister
	Status            = framework.Status
	StorageInfoLister = framework.StorageInfoLister
)

const (
	Error                        = framework.Error
	Unschedulable                = framework.Unschedulable
	UnschedulableAndUnresolvable = framework.UnschedulableAndUnresolvable
)

var NewStatus = framework.NewStatus

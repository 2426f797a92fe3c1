//go:build !before_1_34

package fwk

import "k8s.io/apimachinery/pkg/util/sets"

func SkippedFilters(state CycleState) sets.Set[string] { return state.GetSkipFilterPlugins() }
func SkippedScores(state CycleState) sets.Set[string]  { return state.GetSkipScorePlugins() }
func HasAffinity(info NodeInfo) bool                   { return len(info.GetPodsWithAffinity()) > 0 }
func HasAntiAffinity(info NodeInfo) bool               { return len(info.GetPodsWithRequiredAntiAffinity()) > 0 }
func UsedClaims(info NodeInfo) map[string]int          { return info.GetPVCRefCounts() }
